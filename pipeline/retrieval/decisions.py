"""Find decisions that no arm finds, as they do not name what they are about."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from pipeline.ranking import decisions, features
from pipeline.ranking.model import Candidate
from pipeline.retrieval.arms import limits_of
from pipeline.retrieval.candidates import REACH, CandidateSet, extended, lexemes_of
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.store import candidate_rows, keyword_search

# Words of the discussion that are searched for, and messages with them that are read.
_WORDS = 5
_READ = 500


def with_decisions(connection: Connection, query: PreparedQuery, found: CandidateSet) -> CandidateSet:
    """Add the decisions that hold words of the discussion of the question's subject, if it asks for a decision."""
    chat = query.request.chat
    if not ("decision" in query.question.asks and query.request.weights.decision):
        return found
    ordered = sorted(found.candidates, key=lambda c: (c.session, c.place))
    found = _with_subjects(found, ordered, chat.language)
    meaning = features.meanings(ordered, found.statistics.mean_cosine).tolist()
    close = decisions.close_words(ordered, meaning, found.statistics, chat.language)[:_WORDS]
    rows = candidate_rows.deciding(
        connection,
        query.request.scope,
        " ".join(close),
        found.rows,
        REACH,
        lexemes_of(query.terms),
        [each.embedded for each in query.terms.queries],
        sizes=keyword_search.sizes_of(query.request.prelude.size, chat.mean_length),
        read=_READ,
        limit=limits_of(query.request).best,
    )
    if not rows:
        return found
    found = extended(found, rows, query.terms, chat.language)
    return _with_subjects(found, found.candidates, chat.language)


def _with_subjects(found: CandidateSet, candidates: Sequence[Candidate], language: str) -> CandidateSet:
    """Take the candidates' subjects apart, once for all that is asked of them."""
    said = decisions.subjects(candidates, found.statistics, language)
    subjects = {candidate.id: words for candidate, words in zip(candidates, said, strict=True)}
    return replace(found, statistics=replace(found.statistics, subjects=subjects))
