"""Say how a context came about: every hit with its score's parts, everything dropped with its reason."""

from collections.abc import Sequence
from dataclasses import asdict

from pipeline import assemble
from pipeline.rank import Scored
from pipeline.recall import Asked, Found
from schemas.context import Block, Dropped, Explanation, Hit
from schemas.payloads import ContextQuery

# Hits and drops listed in an explanation.
EXPLAINED = 100


def message_hits(ranked: Sequence[Scored]) -> list[Hit]:
    return [
        Hit(
            kind="message",
            id=str(hit.candidate.id),
            external_id=hit.candidate.external_id,
            session_id=hit.candidate.session or None,
            at=hit.candidate.sent_at,
            speaker=hit.candidate.speaker,
            preview=assemble.shortened(assemble.one_line(hit.candidate.text), 160),
            rank=number,
            score=round(hit.score, 6),
            components={name: round(value, 6) for name, value in hit.parts.items()},
        )
        for number, hit in enumerate(ranked, start=1)
    ]


def explanation(
    query: ContextQuery, asked: Asked, found: Found, ordered: Sequence[Block], dropped: Sequence[Dropped]
) -> Explanation:
    return Explanation(
        profile=query.profile,
        parameters={**asdict(asked.parameters), **asdict(asked.weights)},
        vector_search=found.retrieved.vector_search if found.retrieved else "off",
        rows_compared=found.retrieved.rows_compared if found.retrieved else 0,
        keyword_search=found.retrieved.keyword_search if found.retrieved else "off",
        sessions=[
            Hit(
                kind="session",
                id=str(card.id),
                session_id=card.id,
                at=card.started_at,
                preview=assemble.shortened(assemble.one_line(card.summary or "not summarized"), 160),
                rank=number,
                score=round(score, 6),
            )
            for number, (card, score) in enumerate(found.sessions, start=1)
        ],
        messages=message_hits(found.ranked[:EXPLAINED]),
        memories=[
            Hit(
                kind="memory",
                id=m.id,
                preview=assemble.shortened(m.content, 160),
                rank=n,
                score=round(m.score, 6),
            )
            for n, m in enumerate(found.memories, start=1)
        ],
        dropped=list(dropped[:EXPLAINED]),
        timings_ms={},
        tokens_by_block={block.kind: block.tokens for block in ordered},
    )
