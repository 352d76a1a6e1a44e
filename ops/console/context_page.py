"""The HTML page that shows how a context was made: `context.html.j2`, filled with values that are all escaped."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ops.console import questions, rendering
from schemas.context import Context, Explanation, Hit
from schemas.listing import SessionSpan

# As many as a message's score has parts: each part has a colour of its own.
HUES = tuple(
    "#3b82f6 #f59e0b #10b981 #ef4444 #8b5cf6 #06b6d4 #84cc16 #ec4899 #a16207 #64748b"
    " #1d4ed8 #f472b6 #065f46 #fb923c #7dd3fc #6b21a8 #be123c #0f766e #c4b5a0 #d946ef #bef264 #94a3b8".split()
)
# Hits whose sessions count as found on the time line.
BEST_MESSAGES = 20


def page(
    context: Context, why: Explanation, question: str, chat: str, zone: str, sessions: Sequence[SessionSpan]
) -> str:
    """Render the page with times in this zone; `sessions` are the chat's, or its latest."""
    environment = Environment(
        loader=PackageLoader("ops", "console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_plain,
    )
    every = {
        "Sessions found": why.sessions,
        "Messages found": why.messages,
        "Memories found": why.memories,
    }
    names = dict.fromkeys(
        name
        for hit in (*why.messages, *why.sessions, *why.memories)
        for name, value in hit.components.items()
        if value
    )
    reasons = {(each.kind, each.id): questions.reason(each) for each in why.dropped}

    def fate(hit: Hit) -> str:
        return f"shown in {hit.shown_in}" if hit.shown_in else reasons.get((hit.kind, hit.id), "")

    moment = partial(rendering.moment, zone=zone)
    return environment.get_template("context.html.j2").render(
        context=context,
        why=why,
        question=question,
        title=rendering.preview(question, 80),
        chat=chat,
        hues=HUES,
        colours={name: f"c{n % len(HUES)}" for n, name in enumerate(names)},
        hits=[
            {
                "title": title,
                "hits": hits,
                "parts": [name for name in names if any(hit.components.get(name) for hit in hits)],
                "most": max(sum(map(abs, hit.components.values())) for hit in hits),
            }
            for title, hits in every.items()
            if hits
        ],
        timeline=_timeline(context, why, sessions, moment) if sessions else None,
        counted=Counter((each.kind, questions.reason(each)) for each in why.dropped).most_common(),
        shown=[(block.kind, item) for block in context.blocks for item in block.items],
        moment=moment,
        reason=questions.reason,
        by_query=questions.by_query,
        fate=fate,
    )


def _plain(value: Any) -> Any:
    """Remove control characters from what is text, and not yet markup."""
    return rendering.plain(value) if type(value) is str else value


def _timeline(
    context: Context, why: Explanation, sessions: Sequence[SessionSpan], moment: "partial[str]"
) -> dict[str, Any]:
    """Draw each session at its time, as high as it is long, and mark those found and those shown."""
    spans = sorted(sessions, key=lambda span: span.started_at)
    first, last = spans[0].started_at, max(span.ended_at for span in spans)
    whole = max((last - first).total_seconds(), 1.0)
    most = max(span.message_count for span in spans) or 1
    found = {hit.session_id for hit in (*why.sessions, *why.messages[:BEST_MESSAGES])}
    picked = {hit.session_id for hit in (*why.sessions, *why.messages) if hit.shown_in}
    bars = []
    for span in spans:
        height = 4 + 76 * span.message_count / most
        kind = "picked" if span.id in picked else "found" if span.id in found else None
        state = {"picked": "shown", "found": "found", None: "not among the best"}[kind]
        bars.append(
            {
                "kind": kind,
                "title": f"session {span.id}, {moment(span.started_at)}, {span.message_count} messages: {state}",
                "x": f"{990 * (span.started_at - first).total_seconds() / whole:.1f}",
                "y": f"{82 - height:.1f}",
                "width": f"{max(3, 990 * (span.ended_at - span.started_at).total_seconds() / whole):.1f}",
                "height": f"{height:.1f}",
            }
        )
    counted = Counter(item.kind for block in context.blocks for item in block.items)
    kinds = ", ".join(f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in sorted(counted.items()))
    part = f"{len(picked)} of {len(spans)} sessions have a part in what is shown: {kinds or 'nothing'}."
    return {"bars": bars, "first": first, "last": last, "part": part}
