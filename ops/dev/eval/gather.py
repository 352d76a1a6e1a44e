"""What the shipped path finds for a question, gathered once and assembled again with other weights or budgets.

Embedding the question and reading candidates takes most of the time and depends on neither. A test holds the result
to that of `build_context`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import text

from ops.dev.eval.locomo import CATEGORIES, AskedQuestion, Conversation
from ops.dev.eval.measures import SESSION_KS, TURN_KS, QuestionShares, share_found
from ops.dev.eval.question_messages import asked_as_message
from ops.dev.shipped import DERIVED, Shipped
from pipeline.recall.ask.ask import Ask, parse_question
from pipeline.recall.ask.profiles import Parameters
from pipeline.recall.ask.request import Stopwatch, for_context
from pipeline.recall.ask.weights import Weights
from pipeline.recall.find.candidate import Candidate, Statistics
from pipeline.recall.find.candidates import CandidateSet
from pipeline.recall.find.sessions import RetrievedSession
from pipeline.recall.find_and_rank import SESSIONS_READ, gather_ranked
from pipeline.recall.pack.build import assemble
from pipeline.recall.prepare import prepare_query
from pipeline.recall.rank import rank
from pipeline.recall.rank.ranked import Ranked
from pipeline.store import keyword_search
from pipeline.text.truncate import one_line
from schemas.context import Context
from schemas.payloads import ContextParameters, ContextQuery


@dataclass(frozen=True, kw_only=True)
class FilledConversation:
    """A conversation that was brought in, while a question is put to its bot."""

    # of the messages that are evidence, by external id
    session_of: Mapping[str, int]
    # on one line
    texts: Mapping[str, str]
    sessions: Mapping[int, RetrievedSession]


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """A question with all that was found for it."""

    filled: FilledConversation
    conversation: Conversation
    # of the conversation's questions, from 0
    number: int
    query: ContextQuery
    prepared: Ask
    found: Ranked

    @property
    def question(self) -> AskedQuestion:
        """The question itself."""
        return self.conversation.questions[self.number]

    def ranked(self, weights: Weights) -> Ranked:
        """Rank what was found by these weights."""
        retrieved = self.retrieved
        ranked = rank.rank(self.prepared.question, retrieved.candidates, retrieved.statistics, weights)
        best = rank.rank_sessions(ranked)
        sessions = [
            replace(self.filled.sessions[session], score=hit.score) for session, hit in best[:SESSIONS_READ]
        ]
        return replace(self.found, ranked=ranked, sessions=sessions)

    def context(self, found: Ranked, parameters: Parameters, budget: int) -> Context:
        """Build what a bot gets of it under a budget."""
        prepared = replace(self.prepared, request=replace(self.prepared.request, parameters=parameters))
        return assemble(self.query, prepared, found, budget)

    @property
    def retrieved(self) -> CandidateSet:
        """The candidates with their statistics."""
        if self.found.retrieved is None:
            raise RuntimeError("nothing was searched: memory is off")
        return self.found.retrieved

    def without_vectors(self) -> "Gathered":
        """As if no message had a vector."""
        retrieved = self.retrieved
        statistics = replace(retrieved.statistics, mean_cosine=0.0)
        return self._with([c._replace(cosine=None) for c in retrieved.candidates], statistics)

    def without_words(self) -> "Gathered":
        """As if no word of the question stood anywhere."""
        statistics = replace(self.retrieved.statistics, document_frequency={})
        return self._with([c._replace(terms={}) for c in self.retrieved.candidates], statistics)

    def _with(self, candidates: list[Candidate], statistics: Statistics) -> "Gathered":
        retrieved = replace(self.retrieved, candidates=candidates, statistics=statistics)
        return replace(self, found=replace(self.found, retrieved=retrieved))


def filled(backscroll: Shipped, conversation: Conversation, evidence: Sequence[str]) -> FilledConversation:
    """Return what is stored of a conversation."""
    chat_id = conversation.chat.chat_id
    with backscroll.database.tenant(backscroll.tenant) as connection:
        rows = connection.execute(
            text("""
                SELECT id, session_key, started_at, ended_at, message_count, participants,
                    summary_text AS summary, topic_tags AS topics, entities
                FROM conversation_sessions WHERE chat_id = :chat AND status <> 'merged'
            """),
            {"chat": chat_id},
        )
        sessions = {row.id: RetrievedSession(**row._mapping) for row in rows}
    session_of = backscroll.sessions_of(chat_id)
    return FilledConversation(
        session_of={turn: session_of[turn] for turn in evidence},
        texts={
            m.external_id: one_line(m.content) for m in conversation.messages if m.external_id in evidence
        },
        sessions=sessions,
    )


def gather(
    backscroll: Shipped,
    conversation: Conversation,
    number: int,
    *,
    names_stay: bool = False,
    parameters: ContextParameters = ContextParameters(),  # noqa: B008 - it is frozen
    derived: Sequence[str] = DERIVED,
) -> Gathered:
    """Put a question to the bot as a message, and find everything for it.

    `derived` are the kinds of jobs that follow placing; with `names_stay` names and dates are searched for as words.
    """
    question = conversation.questions[number]
    message = asked_as_message(conversation.chat, conversation.messages, question.text)
    with backscroll.put(conversation.chat, message, derived=derived):
        where = filled(backscroll, conversation, question.evidence)
        query = ContextQuery(
            chat_id=conversation.chat.chat_id,
            query=question.text,
            include_history=False,
            parameters=parameters,
        )
        prepared, found = _found(backscroll, query, names_stay=names_stay)
    # it is ranked again anyway, and the scores of many hundred questions take a gigabyte
    found = replace(found, ranked=(), sessions=())
    return Gathered(
        filled=where, conversation=conversation, number=number, query=query, prepared=prepared, found=found
    )


def _found(backscroll: Shipped, query: ContextQuery, *, names_stay: bool) -> tuple[Ask, Ranked]:
    database, embedder, settings = backscroll.database, backscroll.resources.embedder, backscroll.settings
    stopwatch = Stopwatch()
    with database.tenant(settings.tenant) as connection:
        parsed = parse_question(connection, for_context(connection, query, settings))
        words = keyword_search.lexemes(connection, parsed.request.chat.language, query.query)
    prepared = prepare_query(database, settings.tenant, parsed, embedder, stopwatch)
    embedded = prepared.terms.embedded
    if names_stay and prepared.question.content != query.query and embedded:
        vector = embedder.embed_query(query.query)
        prepared = replace(
            prepared,
            question=replace(prepared.question, content=query.query),
            terms=replace(prepared.terms, lexemes=words, embedded=(embedded[0], vector)),
        )
    return prepared, gather_ranked(database, settings.tenant, prepared, stopwatch)


def measured(
    gathered: Gathered,
    budgets: tuple[int, ...],
    *,
    weights: Weights | None = None,
    parameters: Parameters | None = None,
) -> QuestionShares:
    """Measure a question, by default with the weights and parameters that it was asked with."""
    found = gathered.ranked(weights or gathered.prepared.request.weights)
    where, evidence = gathered.filled, gathered.question.evidence
    turns = [hit.candidate.external_id for hit in found.ranked]
    sessions = [session for session, _ in rank.rank_sessions(found.ranked)]
    wanted = {where.session_of[turn] for turn in evidence}
    contexts = {
        budget: one_line(
            gathered.context(found, parameters or gathered.prepared.request.parameters, budget).text
        )
        for budget in budgets
    }
    category = gathered.question.category
    return QuestionShares(
        category=CATEGORIES.get(category, str(category)),
        session={k: share_found(wanted, sessions, k) for k in SESSION_KS},
        turn={k: share_found(evidence, turns, k) for k in TURN_KS},
        coverage={
            budget: sum(where.texts[turn] in shown for turn in evidence) / len(evidence)
            for budget, shown in contexts.items()
        },
    )
