"""A chat's sessions over time, with those that a context comes from, as a drawing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ops.commands import rendering
from ops.commands.html import Html, join, tag
from schemas.context import Context, Explanation


@dataclass(frozen=True, kw_only=True)
class Span:
    """A session of the chat on the time line."""

    id: int
    started_at: datetime
    ended_at: datetime
    message_count: int


def timeline(context: Context, why: Explanation, zone: str, sessions: Sequence[Span]) -> Html | None:
    """Every session at its time, as high as it is long; those found and those shown stand out."""
    if not sessions:
        return None
    spans = sorted(sessions, key=lambda span: span.started_at)
    first, last = spans[0].started_at, max(span.ended_at for span in spans)
    whole = max((last - first).total_seconds(), 1.0)
    most = max(span.message_count for span in spans) or 1
    found = {hit.session_id for hit in (*why.sessions, *why.messages[:20])}
    picked = {hit.session_id for hit in (*why.sessions, *why.messages) if hit.shown_in}
    bars = []
    for span in spans:
        height = 4 + 76 * span.message_count / most
        kind = "picked" if span.id in picked else "found" if span.id in found else None
        told = f"session {span.id}, {rendering.moment(span.started_at, zone)}, {span.message_count} messages"
        bars.append(
            tag(
                "rect",
                tag("title", f"{told}: {'shown' if kind == 'picked' else kind or 'not among the best'}"),
                x=f"{990 * (span.started_at - first).total_seconds() / whole:.1f}",
                y=f"{82 - height:.1f}",
                width=f"{max(3, 990 * (span.ended_at - span.started_at).total_seconds() / whole):.1f}",
                height=f"{height:.1f}",
                class_=kind,
            )
        )
    counted = Counter(item.kind for block in context.blocks for item in block.items)
    kinds = (f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in sorted(counted.items()))
    part = f"{len(picked)} of {len(spans)} sessions have a part in what is shown: {', '.join(kinds) or 'nothing'}."
    chart = tag(
        "svg",
        bars,
        viewBox="0 0 1000 84",
        preserveAspectRatio="none",
        role="img",
        aria_label="The sessions of the chat over time",
    )
    ends = [tag("span", rendering.moment(at, zone)) for at in (first, last)]
    kept = (("picked", "shown"), ("found", "found, not shown"), ("none", "not among the best"))
    key = [tag("span", tag("i", class_=kind), told) for kind, told in kept]
    higher = tag("span", "higher: more messages")
    return join(
        [
            chart,
            tag("div", ends, class_="ends soft"),
            tag("p", key, higher, class_="key soft"),
            tag("p", part, class_="soft"),
        ]
    )
