"""List what was ranked, as explanations and searches show it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pipeline.ranking import similarity
from pipeline.ranking.model import Scored
from pipeline.retrieval.candidates import Retrieved
from pipeline.text import truncate
from schemas.context import BlockKind, Confidence, Hit


def arms(ranked: Sequence[Scored]) -> dict[int, dict[str, int]]:
    """By message, its place, from 1, by what its words and surroundings say alone, and by its vector alone."""
    words = [hit for hit in ranked if hit.parts.get("words", 0) > 0]
    vectors = [hit for hit in ranked if hit.candidate.cosine is not None]
    places: dict[int, dict[str, int]] = {}
    for number, hit in enumerate(sorted(words, key=lambda h: -h.parts["words"]), start=1):
        places.setdefault(hit.candidate.id, {})["keywords"] = number
    for number, hit in enumerate(sorted(vectors, key=lambda h: -(h.candidate.cosine or 0)), start=1):
        places.setdefault(hit.candidate.id, {})["vectors"] = number
    return places


def message_hits(
    best: Sequence[Scored],
    places: Mapping[int, dict[str, int]],
    shown: Mapping[tuple[str, str], BlockKind] = MappingProxyType({}),
) -> list[Hit]:
    """The best of what was ranked; `places` are those of `arms`, `shown` the block that each thing stands in."""
    return [
        Hit(
            kind="message",
            id=str(hit.candidate.id),
            external_id=hit.candidate.external_id,
            session_id=hit.candidate.session or None,
            at=hit.candidate.sent_at,
            speaker=hit.candidate.speaker,
            preview=truncate.shortened(truncate.one_line(hit.candidate.text), 160),
            rank=number,
            score=round(hit.score, 6),
            components=rounded(hit.parts),
            arms=places.get(hit.candidate.id, {}),
            shown_in=shown.get(("message", str(hit.candidate.id))),
        )
        for number, hit in enumerate(best, start=1)
    ]


def confidence(ranked: Sequence[Scored], retrieved: Retrieved) -> Confidence:
    """How near the best came, in figures that say nothing by themselves."""
    statistics = retrieved.statistics
    cosines = [hit.candidate.cosine for hit in ranked if hit.candidate.cosine is not None]
    words = statistics.document_frequency
    held: dict[int, set[str]] = {}
    for hit in ranked:
        held.setdefault(hit.candidate.session, set()).update(hit.candidate.terms)
    shares = [similarity.share_of_words(its, words, statistics) for its in held.values()]
    return Confidence(
        best_cosine=round(max(cosines), 6) if cosines else None,
        mean_cosine=round(statistics.mean_cosine, 6) if cosines else None,
        words=len(words),
        words_found=round(sum(map(bool, words.values())) / len(words), 6) if words else None,
        words_in_a_session=round(max(shares, default=0.0), 6) if words else None,
    )


def rounded(parts: Mapping[str, float]) -> dict[str, float]:
    """The parts of a score to six digits."""
    return {name: round(value, 6) for name, value in parts.items()}
