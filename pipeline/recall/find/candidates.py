"""Read candidates: the union of all arms' hits, with their neighbours, replies and the messages they reply to.

Chats of any size take the same path.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection

from pipeline.clients.model_languages import knows
from pipeline.recall.find import arms
from pipeline.recall.find.arms import BEHIND_ASIDES, limits_of
from pipeline.recall.profiles import OTHER_QUERY_WEIGHT
from pipeline.recall.question.conversation import Questions
from pipeline.recall.request import RetrievalRequest, SearchTerms
from pipeline.store.memories.memory_candidates import MemoryHits
from pipeline.store.search import candidate_rows
from pipeline.store.search.candidate_rows import CandidateRow
from pipeline.store.search.keyword_search import KeywordHits, KeywordSearch
from pipeline.store.search.narrowed_search import Narrowed
from pipeline.text.cues.addressing import ASKS, called_bots, is_put_to_a_bot, names_of, repeats
from pipeline.text.cues.message_cues import MessageCues, stored_or_read
from schemas.languages import parts_of
from schemas.sessions import RepliedTo, number_of
from schemas.vectors import VectorSearch


class QueryMatch(NamedTuple):
    """How a message matches another query than the question; the fields are those of `Candidate`."""

    terms: Mapping[str, int] = {}
    cosine: float | None = None


class Candidate(NamedTuple):
    """A message that may answer, or a neighbour of one; a tuple, which is created faster than a dataclass."""

    id: int
    # its session; 0 until it is placed in one
    session: int
    # its position in its session: the next message is 1 later, omitted messages leave a gap
    place: int
    external_id: str
    speaker: str
    role: str
    text: str
    sent_at: datetime
    # the question's lexemes in it, and how often
    terms: Mapping[str, int]
    # distinct lexemes
    length: int
    # cosine to the question's vector; None until it is embedded
    cosine: float | None
    # what its text alone says
    cues: MessageCues
    # the asker's mean affinity to those who spoke in its session, from 0 to 1
    affinity: float = 0.0
    # the message of its chat that it answers, if that is stored
    answered: RepliedTo | None = None
    # author of a forwarded text; empty if unknown; None if the speaker's own
    forwarded_from: str | None = None
    # whether it is a question put to a bot, or an answer that says nothing, see `pipeline.recall.find.candidates`
    aside: bool = False
    # of each other query
    others: Sequence[QueryMatch] = ()
    # set by ranking: for `keywords` and `vectors`, the number from 1 of the other query that matches better than the
    # question
    found_by: Mapping[str, int] = {}

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


# Neighbours on either side of a hit.
REACH = 2
# Weight of meaning if the embedding model does not know the language; chosen on the sample chats of part `fit`.
UNKNOWN_LANGUAGE_TRUST = 0.4


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


def retrieve(connection: Connection, request: RetrievalRequest, terms: SearchTerms) -> CandidateSet:
    """Read the candidates of a scope; hits are those that the request's filter lets through."""
    first = arms.search_question(connection, request, terms)
    side_arms = {**arms.search_exact(connection, request, terms, first), **first.asked}
    of_sessions = {"sessions": first.inside, "affinity": first.by_affinity}
    side_arms |= {arm: messages for arm, messages in of_sessions.items() if messages}
    for limit, searched in ((limits_of(request).best, first), (BEHIND_ASIDES, None)):
        searches, by_arm = arms.search_queries(connection, request, terms, limit, searched)
        ids = list(dict.fromkeys(chain(*side_arms.values(), *by_arm.values())))
        candidates = read(connection, request, ids, terms)
        hits = set(chain(*by_arm.values()))
        if 2 * sum(candidate.aside for candidate in candidates if candidate.id in hits) <= len(hits):
            break

    means = [(search.by_word, search.by_vector.mean_cosine) for search in searches]
    return CandidateSet(
        candidates=candidates,
        memories=[search.memories for search in searches],
        statistics=_statistics(request, terms, means),
        arms={**by_arm, **side_arms},
        vector_search=searches[0].by_vector.search,
        rows_compared=searches[0].by_vector.compared,
        keyword_search=searches[0].by_word.search,
    )


def narrowed_candidates(
    connection: Connection, request: RetrievalRequest, terms: SearchTerms, searches: Sequence[Narrowed]
) -> CandidateSet:
    """Read the candidates inside the sessions that each query's search looked into."""
    ids = list(dict.fromkeys(chain(*(search.messages for search in searches))))
    return CandidateSet(
        candidates=read(connection, request, ids, terms),
        memories=[search.memories for search in searches],
        statistics=_statistics(request, terms, [(search.by_word, search.mean_cosine) for search in searches]),
        arms={"sessions": ids},
        vector_search="exact" if terms.embedded else "off",
        rows_compared=sum(search.compared for search in searches),
        keyword_search=searches[0].by_word.search,
    )


def _statistics(
    request: RetrievalRequest, terms: SearchTerms, by_query: Sequence[tuple[KeywordHits, float]]
) -> Statistics:
    """Return the statistics of each query, given what its words found and the mean cosine."""
    first, *rest = (
        Statistics(
            messages=request.prelude.size,
            mean_length=request.chat.mean_length,
            document_frequency={word: by_word.document_frequency.get(word, 0) for word in query.lexemes},
            mean_cosine=mean,
        )
        for query, (by_word, mean) in zip(terms.queries, by_query, strict=True)
    )
    return replace(first, trust=_trust(request.chat.language, terms), others=rest)


def _trust(language: str, terms: SearchTerms) -> float:
    """Return the weight of meaning in a chat: the fewer of its languages the model knows, the less.

    It is 0 if the question has no words but a name or a time.
    """
    if terms.embedded is None:
        return 1.0
    if not terms.lexemes and (terms.speakers or terms.named or terms.spans):
        return 0.0
    return trust(language, terms.embedded[0].model)


def trust(language: str, model: str) -> float:
    """Return the weight of what a model makes of a chat's language: less, the fewer of its parts it knows."""
    parts = parts_of(language)
    unknown = sum(knows(model, part) is False for part in parts)
    return 1 - (1 - UNKNOWN_LANGUAGE_TRUST) * unknown / len(parts)


def lexemes_of(terms: SearchTerms) -> list[str]:
    """Return the lexemes of all queries, each once."""
    return list(dict.fromkeys(chain(*(query.lexemes for query in terms.queries))))


def read(
    connection: Connection, request: RetrievalRequest, ids: Sequence[int], terms: SearchTerms
) -> list[Candidate]:
    """Read these messages as candidates, with `REACH` neighbours on either side and what answers them."""
    queries = [query.embedded for query in terms.queries]
    words = lexemes_of(terms)
    rows = candidate_rows.with_neighbours(connection, request.scope, ids, REACH, words, queries)
    return _candidates(rows, terms, request)


def _candidates(
    rows: Sequence[CandidateRow], terms: SearchTerms, request: RetrievalRequest
) -> list[Candidate]:
    """Return rows of `candidate_rows` as candidates, each with its place, without what was said after `as_of`."""
    language, until = request.chat.language, request.as_of
    lexemes = [frozenset(query.lexemes) for query in terms.queries]
    alone = len(lexemes) == 1
    # by position and not by name, which takes three times as long: some hundreds are made for each query
    ordered = sorted((row[12], row[5], row[6], number_of(row[1]), row[0], row) for row in rows)
    by_external_id = {row[1]: row for row in rows}
    candidates = []
    # the session of the previous message, and the id of the message right after it
    before, following = -1, None
    place = 0
    for *_, row in ordered:
        # columns are unpacked at once: looking up each would take longer than all else
        message, external_id, speaker, role, content, sent_at, _, size, counts = row[:9]
        reply_to, answered, cosines, session, after, asks, flags, affinity, forwarded_from = row[9:]
        if session != before:
            place = 0
        else:
            place += 1 if following == message else 2
        before, following = session, after
        if until is not None and sent_at >= until:
            continue
        # with one query all lexemes are its own
        term_counts = (
            [counts or {}]
            if alone
            else [{word: n for word, n in (counts or {}).items() if word in words} for words in lexemes]
        )
        candidates.append(
            Candidate(
                id=message,
                session=session,
                place=place,
                external_id=external_id,
                speaker=speaker,
                role=role,
                text=content,
                sent_at=sent_at,
                terms=term_counts[0],
                length=size,
                cosine=cosines[0],
                cues=stored_or_read(asks, flags, content, language, of_a_bot=role == "assistant"),
                affinity=affinity,
                forwarded_from=forwarded_from,
                answered=_answered(by_external_id.get(reply_to), answered) if reply_to else None,
                others=()
                if alone
                else [QueryMatch(*pair) for pair in zip(term_counts[1:], cosines[1:], strict=True)],
            )
        )
    questions: Questions | None = terms.questions
    return candidates if questions is None else mark_asides(candidates, questions)


def _answered(named: CandidateRow | None, otherwise: Sequence[Any] | None) -> RepliedTo | None:
    """Return the message that a message answers: its own row if that was read, otherwise what the reply's row says."""
    if named is not None:
        return RepliedTo(named[0], named[2], named[4])
    return RepliedTo(*otherwise) if otherwise else None


def mark_asides(ordered: Sequence[Candidate], questions: Questions) -> list[Candidate]:
    """Mark the asides among candidates, which are in order of session; an aside loses its cosine.

    A question that was answered keeps its words, for the answer after it. If only the log says that it was put to a
    bot, it is no aside.
    """
    language = questions.language
    # in a large chat no candidate may be by the bot
    bots = names_of({c.speaker for c in ordered if c.role == "assistant"}) | called_bots(questions.names)
    names = bots | questions.names
    messages: list[Candidate] = []
    for _, inside in groupby(ordered, key=attrgetter("session")):
        session = list(inside)
        for place, candidate in enumerate(session):
            if candidate.cues.says_nothing:
                messages.append(_as_aside(candidate, keeps_words=False))
                continue
            asks = is_put_to_a_bot(candidate.text, language, bots) or _matches(candidate, questions, names)
            logged = (
                not asks
                and candidate.cues.asks >= ASKS
                and questions.are_logged(candidate.text, candidate.sent_at)
            )
            if not asks and not logged:
                messages.append(candidate)
                continue
            after = session[place + 1] if place + 1 < len(session) else None
            answered = (
                after is not None
                and after.speaker != candidate.speaker
                and not after.cues.says_nothing
                and after.cues.asks < ASKS
            )
            messages.append(candidate if logged and answered else _as_aside(candidate, keeps_words=answered))
    return messages


def _as_aside(candidate: Candidate, *, keeps_words: bool) -> Candidate:
    if keeps_words:
        matches = [other._replace(cosine=None) for other in candidate.others]
        return candidate._replace(aside=True, cosine=None, others=matches)
    matches = [QueryMatch() for _ in candidate.others]
    return candidate._replace(aside=True, cosine=None, terms={}, length=0, others=matches)


def _matches(candidate: Candidate, questions: Questions, names: Collection[str]) -> bool:
    return questions.may_be(candidate.id, candidate.speaker) and repeats(
        candidate.text, questions.itself, questions.language, names
    )
