"""Ordering anew: the blend that group chats know, fading by the day, and diversity."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.recall import build_context
from pipeline.recall.ask.profiles import PROFILES
from pipeline.recall.choose.summaries import RELATED_CHARS
from pipeline.recall.rank import rerank
from pipeline.recall.rank.ranked import Scored
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import MIGRATED, TENANT, Templates
from tests.recall.rank.test_rank import candidate
from tests.recall.test_context import CHAT, fill

NOW = datetime(2026, 4, 1, tzinfo=UTC)


def hit(number: int, score: float, *, days: float = 0, text: str = "hm", **fields: object) -> Scored:
    sent_at = NOW - timedelta(days=days)
    parts = {"words": score - 0.25, "meaning": 0.25}
    return Scored(candidate=candidate(number, text, sent_at=sent_at, **fields), score=score, parts=parts)


def blend(hits: list[Scored], covered: set[int] | None = None) -> list[Scored]:
    return rerank.blended(hits, 2, NOW, covered or set())


def order(hits: list[Scored]) -> list[int]:
    return [each.candidate.id for each in hits]


def test_a_blend_is_of_ranking_newness_and_words() -> None:
    [best, other] = blend([hit(1, 2.0, days=3, terms={"boiler": 1}), hit(2, 1.0, days=6)])
    assert best.score == pytest.approx(0.45 * 1 + 0.25 * 0.5 + 0.30 * 0.5)
    assert other.score == pytest.approx(0.45 * 0.5 + 0.25 * 0.25)


def test_what_a_shown_session_covers_counts_half() -> None:
    hits = [hit(1, 2.0, session=7), hit(2, 1.9, session=8)]
    assert order(blend(hits)) == [1, 2]
    found = blend(hits, covered={7})
    assert order(found) == [2, 1]
    assert found[1].score == pytest.approx(0.5 * blend(hits)[0].score)


def test_scores_that_say_nothing_are_not_blown_up() -> None:
    [found] = blend([hit(1, 2e-309)])
    assert found.score == pytest.approx(0.25)


def test_of_equals_the_newer_comes_first() -> None:
    assert order(rerank.faded([hit(1, 2.0, days=2), hit(2, 2.0, days=1)], NOW, 1.0)) == [2, 1]


def test_sessions_are_blended_as_their_messages_and_count_more() -> None:
    parts = rerank.blend_parts({"ranking": 1.0}, 2.0, timedelta(days=3), 0.5, rerank.SESSION_FACTOR)
    assert parts == pytest.approx(
        {"ranking": 1.25 * 0.45 * 0.5, "recency": 1.25 * 0.25 * 0.5, "overlap": 1.25 * 0.3 * 0.5}
    )


def test_a_day_takes_its_share_of_a_score() -> None:
    found = rerank.faded([hit(1, 2.0, days=10), hit(2, 1.5, days=1)], NOW, 0.95)
    assert order(found) == [2, 1]
    assert found[0].score == pytest.approx(1.5 * 0.95)
    assert found[1].score == pytest.approx(2.0 * 0.95**10)


def test_a_quoted_phrase_stays_first_whatever_its_age() -> None:
    old = hit(1, 2.0, days=900, session=7)
    old = Scored(candidate=old.candidate, score=8.0, parts={**old.parts, "phrase": 6.0})
    hits = [old, hit(2, 3.0, terms={"a": 1, "b": 1})]
    assert order(blend(hits, covered={7})) == [1, 2]
    assert order(rerank.faded(hits, NOW, 0.95)) == [1, 2]


def test_what_is_alike_gives_way_to_what_is_new() -> None:
    hits = [
        hit(1, 2.0, text="the boiler shows E41"),
        hit(2, 1.9, text="the boiler shows E41 again"),
        hit(3, 1.5, text="call the plumber"),
    ]
    assert order(rerank.diverse(hits, 0.7, rerank.overlap)) == [1, 3, 2]
    assert order(rerank.diverse(hits, 1.0, rerank.overlap)) == [1, 2, 3]


TALKS = st.lists(
    st.tuples(st.floats(-1, 5), st.floats(0, 900), st.sampled_from(["a b", "a b c", "d", "e f"])), max_size=80
)


@given(TALKS, st.floats(0, 1))
def test_nothing_is_lost_and_every_score_is_the_sum_of_its_parts(
    talk: list[tuple[float, float, str]], share: float
) -> None:
    hits = [hit(n, score, days=days, text=said) for n, (score, days, said) in enumerate(talk)]
    hits.sort(key=lambda each: -each.score)
    diverse = rerank.diverse(hits, share, rerank.overlap)
    assert order(diverse)[:1] == order(hits)[:1]
    for found in (blend(hits), rerank.faded(hits, NOW, 0.95), diverse):
        assert sorted(order(found)) == sorted(order(hits))
        for each in found:
            assert sum(each.parts.values()) == pytest.approx(each.score, abs=1e-9)


def test_profiles_are_what_their_users_know() -> None:
    group, rag = PROFILES["group"], PROFILES["rag"]
    assert [name for name, each in PROFILES.items() if each.is_blended] == ["group"]
    assert rerank.BLEND_SHARES == (0.45, 0.25, 0.30)
    assert rerank.BLEND_HALF_LIFE.total_seconds() == 72 * 3600
    assert (rerank.SESSION_FACTOR, rerank.COVERED_FACTOR) == (1.25, 0.5)
    assert (group.sessions, group.session_chars) == (3, 420)
    assert (rag.daily_decay, rag.history_tokens, rag.messages, rag.min_similarity) == (0.95, 4096, 5, 0.7)
    assert rag.mmr_lambda < 1
    ask, agent, contextual = PROFILES["ask"], PROFILES["agent"], PROFILES["contextual"]
    assert (ask.memories, ask.documents, ask.history_tokens, ask.messages) == (3, 5, 800, 0)
    assert (agent.user_memories, agent.agent_memories, agent.organization_memories) == (5, 3, 5)
    assert (agent.messages, agent.session_memories, agent.min_importance) == (10, 10, 0.5)
    assert (contextual.sessions, contextual.session_chars, contextual.min_session_fit) == (3, 100, 0.5)
    assert (contextual.messages_per_session, contextual.neighbours) == (5, 1)
    assert (contextual.related, RELATED_CHARS, contextual.history_tokens) == (2, 80, 0)
    nothing_of = {
        "group": ("memories", "documents", "related"),
        "ask": ("sessions", "messages", "related"),
        "rag": ("sessions", "memories", "documents", "related"),
        "agent": ("sessions", "related"),
        "contextual": ("memories", "documents"),
    }
    for profile, names in nothing_of.items():
        assert [getattr(PROFILES[profile], name) for name in names] == [0] * len(names), profile
    balanced = PROFILES["balanced"]
    assert (balanced.daily_decay, balanced.mmr_lambda) == (1, 1)


@pytest.fixture
def template(request: pytest.FixtureRequest, templates: Templates) -> str:
    return templates("filled", fill) if "filled" in request.fixturenames else MIGRATED


@pytest.fixture
def filled(database: Database) -> Database:
    """This test's database, with the talk of `tests.recall.test_context` in memory."""
    return database


def ask(filled: Database, settings: Settings, **fields: object) -> Context:
    asked = {"chat_id": CHAT.chat_id, "query": "the boat trip in May", "explain": True} | fields
    query = ContextQuery.model_validate(asked)
    return build_context(filled, TENANT, query, embedder=DeterministicEmbedder(), settings=settings)


def test_the_profiles_order_is_explained(filled: Database, settings: Settings) -> None:
    group = ask(filled, settings, profile="group", include_history=False).explain
    assert group is not None
    assert all({"recency", "overlap"} <= found.components.keys() for found in group.messages)
    for found in [*group.messages, *ask(filled, settings, profile="rag").explain.messages]:  # type: ignore[union-attr]
        assert sum(found.components.values()) == pytest.approx(found.score, abs=1e-4)


def test_what_gave_way_says_so(filled: Database, settings: Settings) -> None:
    parameters = {"mmr_lambda": 0.1, "messages": 2, "neighbours": 0}
    found = ask(filled, settings, parameters=parameters, include_history=False).explain
    assert found is not None
    assert {"mmr"} <= {dropped.reason for dropped in found.dropped}


def test_an_ask_says_how_many_memories_and_passages_it_wants(filled: Database, settings: Settings) -> None:
    found = ask(filled, settings, profile="ask", top_k_memories=0, top_k_documents=2)
    assert found.explain is not None
    assert (found.explain.parameters["memories"], found.explain.parameters["documents"]) == (0, 2)
    assert found.memories == []
    assert found.usedHistoryTokens is not None
