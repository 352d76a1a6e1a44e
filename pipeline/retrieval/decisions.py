"""Find decisions that no arm finds, as they do not name what they are about."""

from dataclasses import replace

from sqlalchemy import Connection

from pipeline.ranking import decisions, features
from pipeline.retrieval.arms import CANDIDATES_PER_ARM, keyword_hits
from pipeline.retrieval.candidates import CandidateSet, with_neighbours
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.store import keyword_search, message_cues
from pipeline.text.message_cues import stored_or_read

# Words of the discussion that are searched for, and messages with them that are read.
_WORDS = 5
_READ = 500


def with_decisions(connection: Connection, query: PreparedQuery, found: CandidateSet) -> CandidateSet:
    """Add the decisions that hold words of the discussion of the question's subject, if it asks for a decision."""
    chat = query.request.chat
    wanted = "decision" in query.question.asks and query.request.weights.decision
    if not wanted:
        return found
    ordered = sorted(found.candidates, key=lambda c: (c.session, c.place))
    meaning = features.meanings(ordered, found.statistics.mean_cosine).tolist()
    close = decisions.close_words(ordered, meaning, found.statistics, chat.language)[:_WORDS]
    words = keyword_search.lexemes(connection, chat.language, " ".join(close))
    hits = keyword_hits(connection, query.request, words, _READ).scores
    known = {candidate.id for candidate in ordered}
    decides = {
        each: stored_or_read(asks, flags, text, chat.language, of_a_bot=role == "assistant").decides
        for each, role, text, asks, flags in message_cues.of(
            connection, [each for each in hits if each not in known]
        )
    }
    deciding = [each for each in hits if decides.get(each)]
    if not deciding:
        return found
    # read all again, so that each message knows its place among the same neighbours
    ids = [*known, *deciding[:CANDIDATES_PER_ARM]]
    return replace(found, candidates=with_neighbours(connection, query.request.scope, ids, query.terms))
