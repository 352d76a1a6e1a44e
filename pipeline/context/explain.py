"""Say how a context came about: every hit with its score's parts, everything dropped with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta

from pipeline.context.blocks import called
from pipeline.retrieval.gather import Found
from pipeline.retrieval.hits import arms, confidence, message_hits, rounded
from pipeline.retrieval.prepare import Asked
from pipeline.retrieval.profiles import Parameters
from pipeline.text import truncate
from pipeline.text.calendar import written
from schemas.context import Block, BlockKind, Dropped, Explanation, Hit
from schemas.payloads import ContextQuery

# Hits and drops listed in an explanation.
EXPLAINED = 100


def explanation(
    query: ContextQuery, asked: Asked, found: Found, ordered: Sequence[Block], dropped: Sequence[Dropped]
) -> Explanation:
    """What was found and how, and what became of each of the best `EXPLAINED` messages and of all else."""
    shown: dict[tuple[str, str], BlockKind] = {
        ("memory" if item.kind == "document" else item.kind, item.id): block.kind
        for block in ordered
        for item in block.items
    }
    messages = message_hits(found.ranked[:EXPLAINED], arms(found.ranked), shown)
    sessions = _session_hits(found, shown)
    memories = [
        Hit(
            kind="memory",
            id=memory.id,
            preview=truncate.shortened(truncate.one_line(memory.content), 160),
            rank=number,
            score=round(memory.score, 6),
            components=rounded(memory.components),
            shown_in=shown.get(("memory", memory.id)),
        )
        for number, memory in enumerate(found.memories, start=1)
    ]
    return Explanation(
        profile=query.profile,
        asked_by=called(asked.asker) if asked.asker else None,
        parameters={**asdict(asked.parameters), **asdict(asked.weights)},
        vector_search=found.retrieved.vector_search if found.retrieved else "off",
        rows_compared=found.retrieved.rows_compared if found.retrieved else 0,
        keyword_search=found.retrieved.keyword_search if found.retrieved else "off",
        times=_times(asked),
        brief=asked.brief,
        fell_back=found.fell_back,
        confidence=confidence(found.ranked, found.retrieved) if found.retrieved else None,
        sessions=sessions,
        messages=messages,
        memories=memories,
        dropped=_dropped(asked.parameters, found, [*messages, *sessions, *memories], dropped),
        timings_ms={},
        tokens_by_block={block.kind: block.tokens for block in ordered},
    )


def _times(asked: Asked) -> list[str]:
    """The times that the question names, for people; where they have no weight there are none."""
    if not asked.weights.date:
        return []
    named = []
    for start, end in asked.question.spans:
        first, last = written(start.date()), written((end - timedelta(days=1)).date())
        named.append(first if first == last else f"{first} – {last}")
    if asked.question.event is not None:
        named.append(asked.question.event.label)
    if asked.unknown_event is not None:
        named.append(f"{asked.unknown_event.text}: no preference, as it was not found clearly")
    return named


def _session_hits(found: Found, shown: Mapping[tuple[str, str], BlockKind]) -> list[Hit]:
    return [
        Hit(
            kind="session",
            id=str(card.id),
            session_id=card.id,
            at=card.started_at,
            preview=truncate.shortened(truncate.one_line(card.summary or "not summarized"), 160),
            rank=number,
            score=round(score, 6),
            components=rounded(found.session_parts.get(card.id, {})),
            shown_in=shown.get(("session", str(card.id))),
        )
        for number, (card, score) in enumerate(found.sessions, start=1)
    ]


def _dropped(
    parameters: Parameters, found: Found, hits: Sequence[Hit], dropped: Sequence[Dropped]
) -> list[Dropped]:
    """Why each hit that is not shown is not; then what else was dropped, such as older recent messages."""
    told = {(each.kind, each.id): each for each in dropped}
    summarized = {card.id for card, _ in found.sessions if card.summary}
    reasons = [
        told.get((hit.kind, hit.id)) or _left_out(parameters, hit, hit.session_id in summarized, found)
        for hit in hits
        if hit.shown_in is None
    ]
    ranked = {("message", str(hit.candidate.id)) for hit in found.ranked}
    listed = {(hit.kind, hit.id) for hit in hits}
    return reasons + [each for key, each in told.items() if key not in ranked | listed]


def _left_out(parameters: Parameters, hit: Hit, summarized: bool, found: Found) -> Dropped:
    """The reason of a hit that no block was offered."""
    if hit.kind == "session" and found.fell_back:
        parts = found.session_parts.get(int(hit.id), {})
        fit = max(parts.get("words", 0.0), parts.get("meaning", 0.0))
        detail = f"fits by {fit:.2f}; the best must by {parameters.min_session_fit:g}"
        return Dropped(kind=hit.kind, id=hit.id, reason="below_minimum", detail=detail)
    if hit.kind == "message" and found.is_outside(hit.session_id):
        detail = f"not in one of the {parameters.sessions} sessions that were looked into"
        return Dropped(kind=hit.kind, id=hit.id, reason="cap", detail=detail)
    if hit.kind == "message" and int(hit.id) in found.passed_over:
        return Dropped(kind=hit.kind, id=hit.id, reason="mmr", detail="too much like a better hit")
    if hit.kind == "session" and not summarized:
        return Dropped(kind=hit.kind, id=hit.id, reason="below_minimum", detail="not summarized")
    most = {
        "message": f"{parameters.messages} messages",
        "session": f"{parameters.sessions} sessions",
        "memory": f"{parameters.memories} memories and {parameters.documents} documents",
    }
    return Dropped(kind=hit.kind, id=hit.id, reason="cap", detail=f"at most {most[hit.kind]}")
