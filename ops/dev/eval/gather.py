"""What the shipped path finds for a question, gathered once and assembled again with other weights or budgets.

Embedding the question and reading candidates takes most of the time and depends on neither. A test holds the result
to that of `build_context`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sqlalchemy import text

from ops.dev.eval.locomo import CATEGORIES, AskedQuestion, Conversation
from ops.dev.eval.measures import SESSION_KS, TURN_KS, QuestionShares, share_found
from ops.dev.shipped import Shipped
from pipeline.context.build import assemble
from pipeline.ranking import rank
from pipeline.ranking.model import Candidate, Statistics, Weights
from pipeline.retrieval.candidates import CandidateSet
from pipeline.retrieval.gather import SESSIONS_READ, RetrievalResult, gather_result
from pipeline.retrieval.prepare import PreparedQuery, parse_question, prepare_query
from pipeline.retrieval.profiles import Parameters
from pipeline.retrieval.request import Stopwatch, for_context
from pipeline.retrieval.sessions import RetrievedSession
from pipeline.store import keyword_search
from pipeline.text.truncate import one_line
from schemas.context import Context
from schemas.payloads import ContextQuery


@dataclass(frozen=True, kw_only=True)
class FilledConversation:
    """A conversation that was brought in."""

    conversation: Conversation
    # by external id
    session_of: Mapping[str, int]
    # what a context shows of a message, by external id
    texts: Mapping[str, str]
    sessions: Mapping[int, RetrievedSession]


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """A question with all that was found for it."""

    filled: FilledConversation
    question: AskedQuestion
    query: ContextQuery
    prepared: PreparedQuery
    found: RetrievalResult

    def ranked(self, weights: Weights) -> RetrievalResult:
        """Rank what was found by these weights."""
        retrieved = self.retrieved
        ranked = rank.rank(self.prepared.question, retrieved.candidates, retrieved.statistics, weights)
        best = rank.rank_sessions(ranked)
        sessions = [
            replace(self.filled.sessions[session], score=hit.score) for session, hit in best[:SESSIONS_READ]
        ]
        return replace(self.found, ranked=ranked, sessions=sessions)

    def context(self, found: RetrievalResult, parameters: Parameters, budget: int) -> Context:
        """Build what a bot gets of it under a budget."""
        request = replace(self.prepared.request, parameters=parameters)
        prepared = replace(self.prepared, parsed=replace(self.prepared.parsed, request=request))
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


def filled(backscroll: Shipped, conversation: Conversation) -> FilledConversation:
    """Return what `Shipped.fill` has stored of a conversation."""
    chat_id = conversation.chat.chat_id
    with backscroll.database.tenant(backscroll.tenant) as connection:
        rows = connection.execute(
            text("""
                SELECT id, session_key, started_at, ended_at, message_count, summary_text AS summary,
                    topic_tags AS topics, entities
                FROM conversation_sessions WHERE chat_id = :chat AND status <> 'merged'
            """),
            {"chat": chat_id},
        )
        sessions = {row.id: RetrievedSession(**row._mapping) for row in rows}
    return FilledConversation(
        conversation=conversation,
        session_of=backscroll.sessions_of(chat_id),
        texts={m.external_id: one_line(m.content) for m in conversation.messages},
        sessions=sessions,
    )


def gather(
    backscroll: Shipped,
    where: FilledConversation,
    question: AskedQuestion,
    *,
    names_stay: bool = False,
    parameters: Mapping[str, float] = MappingProxyType({}),
) -> Gathered:
    """Find everything for a question; with `names_stay` its names and dates are searched for as words."""
    database, embedder, settings = backscroll.database, backscroll.resources.embedder, backscroll.settings
    query = ContextQuery(
        chat_id=where.conversation.chat.chat_id,
        query=question.text,
        include_history=False,
        parameters=dict(parameters),
    )
    stopwatch = Stopwatch()
    with database.tenant(settings.tenant) as connection:
        parsed = parse_question(connection, for_context(connection, query, settings))
        words = keyword_search.lexemes(connection, parsed.request.chat.language, question.text)
    prepared = prepare_query(database, settings.tenant, parsed, embedder, stopwatch)
    embedded = prepared.terms.embedded
    if names_stay and prepared.question.content != question.text and embedded:
        vector = embedder.embed_query(question.text)
        prepared = replace(
            prepared,
            question=replace(prepared.question, content=question.text),
            terms=replace(prepared.terms, lexemes=words, embedded=(embedded[0], vector)),
        )
    found = gather_result(database, settings.tenant, prepared, stopwatch)
    # it is ranked again anyway, and the scores of many hundred questions take a gigabyte
    found = replace(found, ranked=(), sessions=())
    return Gathered(filled=where, question=question, query=query, prepared=prepared, found=found)


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
        budget: gathered.context(found, parameters or gathered.prepared.request.parameters, budget).text
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
