"""Find what was decided in a large chat: decisions that no arm finds, as they do not say what they are about."""

from dataclasses import replace

from sqlalchemy import Connection

from pipeline.ranking import decisions, rank
from pipeline.retrieval.candidates import CANDIDATES_PER_ARM, WHOLE_UP_TO, Retrieved, gathered
from pipeline.retrieval.prepare import Asked
from pipeline.store import candidate_rows, keyword_search
from pipeline.store.scope import Scope

# Words of the talks about the subject that are looked for, and messages with them that are looked at.
_WORDS = 5
_READ = 500


def with_decisions(
    connection: Connection, scope: Scope, asked: Asked, retrieved: Retrieved, words: list[str]
) -> Retrieved:
    """What was retrieved, and the decisions that hold words of the talks about the question's subject.

    Where every message is a candidate, or no decision is asked for, that is what was retrieved.
    """
    wanted = "decision" in asked.question.asks and asked.weights.decision
    if not wanted or asked.chat.message_count <= WHOLE_UP_TO:
        return retrieved
    ordered = sorted(retrieved.candidates, key=lambda c: (c.session, c.place))
    meaning = rank.meanings(ordered, retrieved.statistics.mean_cosine)
    close = decisions.close_words(ordered, meaning, retrieved.statistics)[:_WORDS]
    found = keyword_search.keywords(
        connection,
        scope,
        keyword_search.lexemes(connection, scope.language, " ".join(close)),
        messages=asked.chat.message_count,
        mean_size=asked.chat.lexeme_count / max(1, asked.chat.message_count),
        limit=_READ,
    )
    known = {candidate.id for candidate in ordered}
    content = dict(candidate_rows.contents(connection, [each for each in found.scores if each not in known]))
    deciding = [each for each in found.scores if each in content and decisions.decides(content[each])]
    if not deciding:
        return retrieved
    # all again, so that what stands around them is known by its place among the same neighbours
    candidates = gathered(
        connection,
        scope,
        [*known, *deciding[:CANDIDATES_PER_ARM]],
        words,
        asked.space,
        asked.vector,
        asked.questions,
    )
    return replace(retrieved, candidates=candidates)
