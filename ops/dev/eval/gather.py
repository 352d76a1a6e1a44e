"""What the shipped path finds for a question, gathered once and assembled again with other weights or budgets.

Embedding the question and reading candidates takes most of the time and depends on neither. A test holds the result
to that of `build_context`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy import text

from ops.dev.eval.locomo import CATEGORIES, AskedQuestion, Conversation
from ops.dev.eval.measures import SESSION_KS, TURN_KS, QuestionShares, share_found
from ops.dev.shipped import Shipped
from pipeline.context.build import answer
from pipeline.ranking import rank
from pipeline.ranking.model import Candidate, Statistics, Weights
from pipeline.retrieval import gather as recall
from pipeline.retrieval import prepare
from pipeline.retrieval.candidates import Retrieved
from pipeline.retrieval.found import SessionCard
from pipeline.retrieval.gather import SESSIONS_READ, Found
from pipeline.retrieval.prepare import Asked
from pipeline.retrieval.profiles import Parameters
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
    cards: Mapping[int, SessionCard]


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """A question with all that was found for it."""

    filled: FilledConversation
    question: AskedQuestion
    query: ContextQuery
    asked: Asked
    found: Found

    def ranked(self, weights: Weights) -> Found:
        """What was found, ranked by these weights."""
        retrieved = self.retrieved
        ranked = rank.rank(self.asked.question, retrieved.candidates, retrieved.statistics, weights)
        best = rank.rank_sessions(ranked)
        sessions = [(self.filled.cards[session], hit.score) for session, hit in best[:SESSIONS_READ]]
        return replace(self.found, ranked=ranked, sessions=sessions)

    def context(self, found: Found, parameters: Parameters, budget: int) -> Context:
        """What a bot gets of it under a budget."""
        return answer(self.query, replace(self.asked, parameters=parameters), found, budget)

    @property
    def retrieved(self) -> Retrieved:
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
        return self._with([c._replace(terms={}, related={}) for c in self.retrieved.candidates], statistics)

    def _with(self, candidates: list[Candidate], statistics: Statistics) -> "Gathered":
        retrieved = replace(self.retrieved, candidates=candidates, statistics=statistics)
        return replace(self, found=replace(self.found, retrieved=retrieved))


def filled(backscroll: Shipped, conversation: Conversation) -> FilledConversation:
    """A conversation after `Shipped.fill`."""
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
        cards = {row.id: SessionCard(**row._mapping) for row in rows}
    return FilledConversation(
        conversation=conversation,
        session_of=backscroll.sessions_of(chat_id),
        texts={m.external_id: one_line(m.content) for m in conversation.messages},
        cards=cards,
    )


def gather(
    backscroll: Shipped, where: FilledConversation, question: AskedQuestion, *, names_stay: bool = False
) -> Gathered:
    """All that is found for a question; with `names_stay` its names and dates are searched for as words."""
    database, embedder, settings = backscroll.database, backscroll.resources.embedder, backscroll.settings
    query = ContextQuery(chat_id=where.conversation.chat.chat_id, query=question.text, include_history=False)
    asked = prepare.ask(database, settings.tenant, query, embedder, settings)
    if names_stay and asked.question.content != question.text:
        asked.question = replace(asked.question, content=question.text)
        asked.vector = embedder.embed_query(question.text)
    found = recall.find(database, settings.tenant, query, asked, settings)
    # it is ranked again anyway, and the scores of many hundred questions take a gigabyte
    found = replace(found, ranked=[], sessions=[])
    return Gathered(filled=where, question=question, query=query, asked=asked, found=found)


def measured(
    gathered: Gathered,
    budgets: tuple[int, ...],
    *,
    weights: Weights | None = None,
    parameters: Parameters | None = None,
) -> QuestionShares:
    """Measure a question, by default with the weights and parameters that it was asked with."""
    found = gathered.ranked(weights or gathered.asked.weights)
    where, evidence = gathered.filled, gathered.question.evidence
    turns = [hit.candidate.external_id for hit in found.ranked]
    sessions = [session for session, _ in rank.rank_sessions(found.ranked)]
    wanted = {where.session_of[turn] for turn in evidence}
    contexts = {
        budget: gathered.context(found, parameters or gathered.asked.parameters, budget).text
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
