"""Explain a context: every hit with the parts of its score, everything dropped with its reason."""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from types import MappingProxyType

from pipeline.recall.choose.lines import display_name
from pipeline.recall.gather import MESSAGE_WEIGHT, Ranked
from pipeline.recall.profiles import OTHER_QUERY_WEIGHT, Parameters
from pipeline.recall.rank import features, rank
from pipeline.recall.rank.rank import Scored
from pipeline.recall.request import Request
from pipeline.store.search import keyword_search
from pipeline.text import truncate
from pipeline.text.calendars.spans import written_day
from schemas.context import Block, BlockKind, Dropped, DropReason, Explanation, Hit
from schemas.payloads import ContextQuery
from schemas.search import Line
from schemas.sessions import Message
from schemas.signs import border

PREVIEW_CHARS = 160


def message_hits(
    best: Sequence[Scored],
    arms: Mapping[str, Sequence[int]],
    shown: Mapping[tuple[str, str], BlockKind] = MappingProxyType({}),
) -> list[Hit]:
    """Return ranked messages as hits; `arms` is what each arm found, `shown` the block that an item is in."""
    places = defaultdict[int, dict[str, int]](dict)
    for arm, ids in arms.items():
        for place, message in enumerate(ids, start=1):
            places[message][arm] = place
    return [
        Hit(
            kind="message",
            id=str(hit.candidate.id),
            external_id=hit.candidate.message.external_id,
            session_id=hit.candidate.session or None,
            at=hit.candidate.message.sent_at,
            speaker=hit.candidate.message.speaker,
            preview=preview(hit.candidate.message.content),
            rank=number,
            score=round(hit.score, 6),
            components=rounded(hit.parts),
            arms=places[hit.candidate.id],
            queries=dict(hit.candidate.found_by),
            shown_in=shown.get(("message", str(hit.candidate.id))),
        )
        for number, hit in enumerate(best, start=1)
    ]


def as_line(message: Message, score: float | None = None) -> Line:
    """Return a message as a line of a search answer."""
    return Line(
        id=str(message.id),
        external_id=message.external_id,
        at=message.sent_at,
        speaker=message.speaker,
        role=message.role,
        text=message.content,
        score=None if score is None else round(score, 6),
    )


def preview(text: str, piece: str = "") -> str:
    """Return the beginning of a text on one line, or the part around a `piece` of it."""
    start = border(text, max(0, text.casefold().find(piece.casefold()) - 60))
    cut = (truncate.ELLIPSIS if start else "") + truncate.one_line(text[start:])
    return truncate.shortened(cut, PREVIEW_CHARS)


def rounded(parts: Mapping[str, float]) -> dict[str, float]:
    """Round the parts of a score to six digits."""
    return {name: round(value, 6) for name, value in parts.items()}


# Messages listed in an explanation.
MAX_EXPLAINED = 100
CONSTANTS = {
    "k1": keyword_search.K1,
    "b": keyword_search.B,
    "later": features.LATER,
    "earlier": features.EARLIER,
    "steps": features.STEPS,
    "silence_seconds": features.SILENCE_SECONDS,
    "half_substance": features.HALF_SUBSTANCE,
    "half_length": features.HALF_LENGTH,
    "date_half_life_days": features.DATE_HALF_LIFE_DAYS,
    "date_half_length_days": features.DATE_HALF_LENGTH_DAYS,
    "second": rank.SECOND_HIT_SHARE,
    "other_query": OTHER_QUERY_WEIGHT,
    "reranker": rank.RERANKER_WEIGHT,
}
"""The constants of ranking that no request changes, for explanations."""


def explanation(
    query: ContextQuery,
    request: Request,
    results: Ranked,
    ordered: Sequence[Block],
    dropped: Sequence[Dropped],
) -> Explanation:
    """Explain what was found and how, and where each hit is shown or why it is not."""
    shown: dict[tuple[str, str], BlockKind] = {
        ("memory" if item.kind == "document" else item.kind, item.id): block.kind
        for block in ordered
        for item in block.items
    }
    retrieved = results.retrieved
    messages = message_hits(results.ranked[:MAX_EXPLAINED], retrieved.arms if retrieved else {}, shown)
    sessions = [
        Hit(
            kind="session",
            id=str(session.id),
            session_id=session.id,
            at=session.started_at,
            preview=preview(session.summary or "not summarized"),
            rank=number,
            score=round(session.score, 6),
            components=rounded(session.components),
            shown_in=shown.get(("session", str(session.id))),
        )
        for number, session in enumerate(results.sessions, start=1)
    ]
    memories = [
        Hit(
            kind="memory",
            id=memory.id,
            preview=preview(memory.content),
            rank=number,
            score=round(memory.score, 6),
            components=rounded(memory.components),
            shown_in=shown.get(("memory", memory.id)),
        )
        for number, memory in enumerate(results.memories, start=1)
    ]
    return Explanation(
        profile=query.profile,
        asked_by=display_name(request.snapshot.asker) if request.snapshot.asker else None,
        parameters=asdict(request.parameters),
        vector_search=retrieved.vector_search if retrieved else "off",
        rows_compared=retrieved.rows_compared if retrieved else 0,
        keyword_search=retrieved.keyword_search if retrieved else "off",
        times=_times(request),
        brief=list(request.context_words),
        fell_back=results.fell_back,
        combined_by={
            "message": "sum",
            "session": "sum",
            "memory": "product",
        },
        evidence=dict(results.evidence.parts) if results.evidence else {},
        evidence_reasons=results.evidence.reasons() if results.evidence else [],
        unsure=results.evidence.unsure if results.evidence else "",
        constants=asdict(request.weights) | CONSTANTS | _of_profile(request.parameters, results),
        sessions=sessions,
        messages=messages,
        memories=memories,
        dropped=_dropped(results, [*messages, *sessions, *memories], dropped, shown),
        timings_ms={},
        tokens_by_block={block.kind: block.tokens for block in ordered},
    )


def _of_profile(parameters: Parameters, results: Ranked) -> dict[str, float]:
    """Return the constants of what the profile makes of the ranking."""
    constants: dict[str, float] = {}
    if parameters.is_blended:
        names = ("blend_ranking", "blend_recency", "blend_overlap")
        constants |= dict(zip(names, rank.BLEND_SHARES, strict=True))
        constants["blend_half_life_hours"] = rank.BLEND_HALF_LIFE / timedelta(hours=1)
        constants["blend_session"] = rank.SESSION_FACTOR
    if parameters.daily_decay < 1:
        constants["fading"] = rank.FADING_SHARE
    if results.narrowing is not None:
        constants["best_message"] = MESSAGE_WEIGHT
    return constants


def _times(request: Request) -> list[str]:
    """Describe the times of the question for people."""
    named = []
    for start, end in request.question.spans:
        first, last = written_day(start.date()), written_day((end - timedelta(days=1)).date())
        named.append(first if first == last else f"{first} – {last}")
    if request.question.event is not None:
        named.append(request.question.event.label)
    if request.undated_event is not None:
        named.append(f"{request.undated_event.text}: no preference, as it was not found clearly")
    return named


def _dropped(
    results: Ranked, hits: Sequence[Hit], dropped: Sequence[Dropped], shown: Container[tuple[str, str]]
) -> list[Dropped]:
    """Return the reason for each hit not shown, then what else was dropped, such as older recent messages."""
    candidates = (hit.candidate for hit in results.ranked)
    opened = {str(c.session) for c in candidates if ("message", str(c.id)) in shown}
    drops = {(drop.kind, drop.id): drop for drop in dropped}
    reasons = [
        _reason(hit, results, drops.get((hit.kind, hit.id)), opened) for hit in hits if not hit.shown_in
    ]
    ranked = {("message", str(hit.candidate.id)) for hit in results.ranked}
    listed = {(hit.kind, hit.id) for hit in hits}
    return reasons + [drop for key, drop in drops.items() if key not in ranked | listed]


def _reason(hit: Hit, results: Ranked, drop: Dropped | None, opened: Container[str]) -> Dropped:
    """Return the reason for a hit not shown; `drop` is None if it was offered to no block.

    `opened` are the sessions of which messages are shown.
    """

    def dropped(reason: DropReason, detail: str) -> Dropped:
        return Dropped(kind=hit.kind, id=hit.id, reason=reason, detail=detail)

    is_passed_over = hit.kind == "message" and int(hit.id) in results.passed_over
    if is_passed_over and (drop is None or drop.reason in {"below_minimum", "cap"}):
        return dropped("mmr", "too much like a better hit")
    if drop is not None and drop.reason == "covered" and hit.id not in opened:
        return dropped("budget", "nor was there room for its messages")
    if drop is not None:
        return drop
    if hit.kind == "session" and results.fell_back:
        fit = next(session.fit for session in results.sessions if session.id == hit.session_id)
        return dropped("below_minimum", f"answers with a probability of {fit:.0%}, which is too little")
    return dropped("below_minimum", "without a word")
