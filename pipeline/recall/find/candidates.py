"""Read candidates: the union of all arms' hits, with their neighbours, replies and the messages they reply to.

Chats of any size take the same path.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Connection

from pipeline.clients.known_models import knows
from pipeline.recall.find import arms
from pipeline.recall.profiles import OTHER_QUERY_WEIGHT
from pipeline.recall.question.conversation import Questions
from pipeline.recall.request import Request
from pipeline.store.memories.memory_candidates import MemoryHits, MemoryScope
from pipeline.store.search import candidate_rows
from pipeline.store.search.candidate_rows import CandidateRow
from pipeline.store.search.keyword_search import KeywordHits, KeywordSearch
from pipeline.store.search.narrowed_search import Narrowed
from pipeline.text.cues.message_cues import (
    ASKS,
    MessageCues,
    called_bots,
    is_put_to_a_bot,
    names_of,
    repeats,
    stored_or_read,
)
from schemas.languages import parts_of
from schemas.sessions import Message
from schemas.vectors import VectorSearch

# Neighbours on either side of a hit.
REACH = 2
# Weight of meaning if the embedding model does not know the language; chosen on the sample chats of part `fit`.
UNKNOWN_LANGUAGE_TRUST = 0.4


class QueryMatch(NamedTuple):
    """How a message matches another query than the question; the fields are those of `Candidate`."""

    terms: Mapping[str, int] = {}
    cosine: float | None = None


class Candidate(NamedTuple):
    """A message that may answer, or a neighbour of one, and how it matches; a tuple, as hundreds are made."""

    message: Message
    # its session; 0 until it is placed in one
    session: int
    # its position in its session: the next message is 1 later, omitted messages leave a gap
    place: int
    # the question's lexemes in it, and how often
    terms: Mapping[str, int]
    # distinct lexemes
    length: int
    # cosine to the question's vector; None until it is embedded
    cosine: float | None
    # what its text alone says
    cues: MessageCues
    # the asker's mean affinity to those who spoke in its session, from 0 to 1
    affinity: float
    # whether it shares the question's words without answering it: a question put to a bot, or an empty answer
    noise: bool = False
    # of each other query
    others: Sequence[QueryMatch] = ()
    # set by ranking: for `keywords` and `vectors`, the number from 1 of the other query that matches better than the
    # question
    found_by: Mapping[str, int] = {}

    @property
    def id(self) -> int:
        """The message's id."""
        return self.message.id

    @property
    def best_cosine(self) -> float | None:
        """The cosine to the question, or `OTHER_QUERY_WEIGHT` times that to another query, if that is more."""
        if not self.others:
            return self.cosine
        cosines = [OTHER_QUERY_WEIGHT * other.cosine for other in self.others if other.cosine is not None]
        return max([*cosines, *([] if self.cosine is None else [self.cosine])], default=None)


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Statistics of the whole scope that the candidates come from."""

    messages: int
    # distinct lexemes of a message
    mean_length: float
    # the number of messages with each of the question's lexemes; 0 for those in none
    document_frequency: Mapping[str, int]
    mean_cosine: float = 0.0
    # weight of meaning: less if the embedding model does not know the chat's language
    trust: float = 1.0
    # the same for each other query
    others: Sequence["Statistics"] = ()


@dataclass(frozen=True, kw_only=True)
class CandidateSet:
    """Candidates with the statistics that scoring them needs."""

    candidates: list[Candidate]
    statistics: Statistics
    # memories found by each query; empty if not searched
    memories: Sequence[MemoryHits] = ()
    # what each arm found, the best first
    arms: Mapping[str, Sequence[int]]
    # how vectors were searched, and how many were compared
    vector_search: VectorSearch
    rows_compared: int
    # whether every message with a word of the query was scored
    keyword_search: KeywordSearch


def retrieve(connection: Connection, request: Request, memories: MemoryScope | None = None) -> CandidateSet:
    """Read the candidates of a scope, and the memories of another; hits are those that the filter lets through."""
    first = arms.search_question(connection, request, memories)
    side_arms = {**arms.search_exact(connection, request, first), **first.asked}
    of_sessions = {"sessions": first.inside, "affinity": first.by_affinity}
    side_arms |= {arm: messages for arm, messages in of_sessions.items() if messages}
    searches, by_arm = arms.search_queries(connection, request, memories, first)
    candidates = read(connection, request, chain(*side_arms.values(), *by_arm.values()))
    found = [candidate for candidate in candidates if candidate.id in set(chain(*by_arm.values()))]
    if 2 * sum(candidate.noise for candidate in found) > len(found):
        searches, by_arm = arms.search_queries(connection, request, memories)
        candidates = read(connection, request, chain(*side_arms.values(), *by_arm.values()))
    return CandidateSet(
        candidates=candidates,
        memories=[search.memories for search in searches],
        statistics=_statistics(
            request, [(search.by_word, search.by_vector.mean_cosine) for search in searches]
        ),
        arms={**by_arm, **side_arms},
        vector_search=searches[0].by_vector.search,
        rows_compared=searches[0].by_vector.compared,
        keyword_search=searches[0].by_word.search,
    )


def narrowed_candidates(
    connection: Connection, request: Request, searches: Sequence[Narrowed]
) -> CandidateSet:
    """Read the candidates inside the sessions that each query's search looked into."""
    ids = list(dict.fromkeys(chain(*(search.messages for search in searches))))
    return CandidateSet(
        candidates=read(connection, request, ids),
        memories=[search.memories for search in searches],
        statistics=_statistics(request, [(search.by_word, search.mean_cosine) for search in searches]),
        arms={"sessions": ids},
        vector_search="exact" if request.embedded else "off",
        rows_compared=sum(search.compared for search in searches),
        keyword_search=searches[0].by_word.search,
    )


def _statistics(request: Request, by_query: Sequence[tuple[KeywordHits, float]]) -> Statistics:
    """Return the statistics of each query, given what its words found and the mean cosine."""
    first, *rest = (
        Statistics(
            messages=request.snapshot.size,
            mean_length=request.chat.mean_length,
            document_frequency={word: by_word.document_frequency.get(word, 0) for word in query.lexemes},
            mean_cosine=mean,
        )
        for query, (by_word, mean) in zip(request.queries, by_query, strict=True)
    )
    return replace(first, trust=_trust(request), others=rest)


def _trust(request: Request) -> float:
    """Return the weight of meaning; 0 if the question has no words but a name or a time."""
    if request.embedded is None:
        return 1.0
    if not request.lexemes and (request.question.speakers or request.named or request.question.times):
        return 0.0
    return trust(request.chat.language, request.embedded[0].model)


def trust(language: str, model: str) -> float:
    """Return the weight of what a model makes of a chat's language: less, the fewer of its parts it knows."""
    parts = parts_of(language)
    unknown = sum(knows(model, part) is False for part in parts)
    return 1 - (1 - UNKNOWN_LANGUAGE_TRUST) * unknown / len(parts)


def read(connection: Connection, request: Request, ids: Iterable[int]) -> list[Candidate]:
    """Read messages as candidates in order of session, with `REACH` neighbours on either side and what answers them.

    What was said after `as_of` is left out.
    """
    lexemes = [frozenset(query.lexemes) for query in request.queries]
    rows = candidate_rows.with_neighbours(
        connection,
        request.scope,
        list(dict.fromkeys(ids)),
        REACH,
        list(frozenset[str]().union(*lexemes)),
        [query.embedded for query in request.queries],
    )
    candidates = []
    before: CandidateRow | None = None
    place = 0
    for row in sorted(rows, key=lambda row: (row.session, row.message.stamp)):
        if before is None or before.session != row.session:
            place = 0
        else:
            place += 1 if before.next == row.message.id else 2
        before, message, counts = row, row.message, row.terms or {}
        if request.as_of is not None and message.sent_at >= request.as_of:
            continue
        # with one query all lexemes are its own
        first, *others = (
            [counts]
            if len(lexemes) == 1
            else [{word: n for word, n in counts.items() if word in words} for words in lexemes]
        )
        candidates.append(
            Candidate(
                message=message,
                session=row.session,
                place=place,
                terms=first,
                length=row.length,
                cosine=row.cosines[0],
                cues=stored_or_read(
                    row.asks,
                    row.flags,
                    message.content,
                    request.chat.language,
                    of_a_bot=message.role == "assistant",
                ),
                affinity=row.affinity,
                others=[QueryMatch(*match) for match in zip(others, row.cosines[1:], strict=True)],
            )
        )
    return candidates if request.finds_questions else mark_noise(candidates, request.questions)


def mark_noise(ordered: Sequence[Candidate], questions: Questions) -> list[Candidate]:
    """Mark the noise among candidates, which are in order of session; noise loses its cosine.

    A question that was answered keeps its words, for the answer after it. If only the log says that it was put to a
    bot, it is no noise.
    """
    language = questions.language
    # in a large chat no candidate may be by the bot
    bots = names_of({c.message.speaker for c in ordered if c.message.role == "assistant"}) | called_bots(
        questions.names
    )
    names = bots | questions.names
    marked: list[Candidate] = []
    for _, inside in groupby(ordered, key=attrgetter("session")):
        session = list(inside)
        for place, candidate in enumerate(session):
            message, cues = candidate.message, candidate.cues
            if cues.says_nothing:
                marked.append(_as_noise(candidate, keeps_words=False))
                continue
            asks = is_put_to_a_bot(message.content, language, bots) or _matches(message, questions, names)
            logged = not asks and cues.asks >= ASKS and questions.are_logged(message.content, message.sent_at)
            if not asks and not logged:
                marked.append(candidate)
                continue
            after = session[place + 1] if place + 1 < len(session) else None
            answered = (
                after is not None
                and after.message.speaker != message.speaker
                and not after.cues.says_nothing
                and after.cues.asks < ASKS
            )
            marked.append(candidate if logged and answered else _as_noise(candidate, keeps_words=answered))
    return marked


def _as_noise(candidate: Candidate, *, keeps_words: bool) -> Candidate:
    if keeps_words:
        matches = [other._replace(cosine=None) for other in candidate.others]
        return candidate._replace(noise=True, cosine=None, others=matches)
    matches = [QueryMatch() for _ in candidate.others]
    return candidate._replace(noise=True, cosine=None, terms={}, length=0, others=matches)


def _matches(message: Message, questions: Questions, names: Collection[str]) -> bool:
    return questions.may_be(message.id, message.speaker) and repeats(
        message.content, questions.itself, questions.language, names
    )
