"""Prepare the values of the template `context.html.j2`, which explains a context on a page or in a file."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from schemas.context import Context, Explanation, Hit
from schemas.listing import ChatSummary, SessionSpan
from schemas.memories import certainty
from workers.api.inspector.pages import ASSETS, TEMPLATES

# One for each part of a message's score, as in the style sheet.
COLOURS = 22
# Hits whose sessions count as found on the time line.
BEST_MESSAGES = 20


def standalone(context: Context, question: str, chat: ChatSummary, sessions: Sequence[SessionSpan]) -> str:
    """Render a standalone page, with its style and without scripts; `sessions` are the chat's (latest) ones."""
    values = view(context, question, chat, sessions)
    style = ASSETS["inspector.css"].decode()
    template = TEMPLATES.get_template("standalone.html.j2")
    return template.render(style=style, links=False, chat=chat, **values)


def view(
    context: Context, question: str, chat: ChatSummary, sessions: Sequence[SessionSpan]
) -> dict[str, Any]:
    """Return the template's values for a context with its explanation."""
    why = context.explain
    if why is None:
        raise ValueError("the context was built without `explain`")
    hits_by_title = {
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
    reasons = {(dropped.kind, dropped.id): dropped.in_words() for dropped in why.dropped}
    return {
        "context": context,
        "why": why,
        "question": question,
        "judged": certainty(context.evidence, context.evidence_probability),
        "zone": chat.time_zone,
        "colours": {name: f"c{n % COLOURS}" for n, name in enumerate(names)},
        "hits": [
            {
                "title": title,
                "hits": hits,
                "parts": [name for name in names if any(hit.components.get(name) for hit in hits)],
                "most": max(sum(map(abs, hit.components.values())) for hit in hits) or 1.0,
            }
            for title, hits in hits_by_title.items()
            if hits
        ],
        "timeline": _timeline(context, why, sessions) if sessions else None,
        "counted": Counter((dropped.kind, dropped.in_words()) for dropped in why.dropped).most_common(),
        "shown": [(block.kind, item) for block in context.blocks for item in block.items],
        "fates": {
            (hit.kind, hit.id): f"shown in {hit.shown_in}"
            if hit.shown_in
            else reasons.get((hit.kind, hit.id), "")
            for _, hits in hits_by_title.items()
            for hit in hits
        },
    }


def _timeline(context: Context, why: Explanation, sessions: Sequence[SessionSpan]) -> dict[str, Any]:
    """Draw each session at its time, with its length as height, and mark those found and those shown."""
    spans = sorted(sessions, key=lambda span: span.started_at)
    first, last = spans[0].started_at, max(span.ended_at for span in spans)
    whole = max((last - first).total_seconds(), 1.0)
    most = max(span.message_count for span in spans) or 1
    best: list[Hit] = [*why.sessions, *why.messages[:BEST_MESSAGES]]
    best_sessions = {hit.session_id for hit in best}
    picked = {hit.session_id for hit in (*why.sessions, *why.messages) if hit.shown_in}
    bars = []
    for span in spans:
        height = 4 + 76 * span.message_count / most
        kind = "picked" if span.id in picked else "found" if span.id in best_sessions else None
        bars.append(
            {
                "span": span,
                "kind": kind,
                "state": {"picked": "shown", "found": "found", None: "not among the best"}[kind],
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
