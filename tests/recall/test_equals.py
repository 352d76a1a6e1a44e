"""The order in which messages came decides nothing: a chat gives the same contexts wherever it is imported."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.recall import build_context
from pipeline.recall.find import arms
from pipeline.recall.find.arms import ArmLimits
from pipeline.recall.find.candidates import Statistics
from pipeline.recall.profiles import Weights
from pipeline.recall.question import parse
from pipeline.recall.rank import rank
from pipeline.store.connections.database import Database
from pipeline.store.search.session_search import SessionLimits
from schemas.messages import MessageIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import message
from tests.harness.contexts import CHAT, do_all
from tests.recall.found import START, candidate

# So few that there are more equals than an arm finds, or looks at.
FEW = ArmLimits(
    3, SessionLimits(read=3, nearest=3, looked_into=2, messages=2, close_sessions=2, close_messages=2)
)
TEXTS = ("the pump leaks", "the pump leaks again", "der Zaun ist neu", "ok")
QUESTIONS = (
    "what leaks?",
    "was ist mit dem Zaun?",
    'who said "the pump leaks"?',
    "what did Ann say on 3 March 2026?",
    "what is the latest about the pump?",
)
_tenants = count(1)


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[MessageIn], list[MessageIn]]:
    """Messages of few texts and times, in two orders."""
    one = st.tuples(
        st.sampled_from(TEXTS),
        st.sampled_from([0, 0.5, 60, 24 * 60, 24 * 60 + 60]),
        st.sampled_from(["Ann", "Bob", "Cy"]),
        st.sampled_from(["", "shift"]),
    )
    said = [
        message(
            at,
            content,
            id=f"x{n:02}",
            sender_id=f"test:{by}",
            sender_name=by,
            session_key=key,
            # as an export states it
            position=n,
        )
        for n, (content, at, by, key) in enumerate(draw(st.lists(one, min_size=24, max_size=24)))
    ]
    return said, draw(st.permutations(said))


def contexts(database: Database, said: Sequence[MessageIn], settings: Settings) -> list[str]:
    """What a tenant's contexts say that got these messages one by one."""
    tenant = f"equals-{next(_tenants)}"
    for each in said:
        accept.accept(database, tenant, CHAT, [each])
    do_all(database)
    texts = []
    for question in QUESTIONS:
        for profile in ("balanced", "contextual", "group"):
            asked: dict[str, Any] = {"chat_id": CHAT.chat_id, "query": question, "profile": profile}
            query = ContextQuery.model_validate(
                asked | {"user_id": "test:Ann", "as_of": "2026-05-01T00:00:00Z", "budget_tokens": 400}
            )
            found = build_context(
                database,
                tenant,
                query,
                embedder=DeterministicEmbedder(),
                settings=settings,
                records=False,
            )
            texts.append(found.text)
    return texts


def test_messages_that_came_in_another_order_give_the_same_contexts(
    shared: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arms, "LIMITS", {0: FEW})
    monkeypatch.setattr(arms, "CANDIDATES_PER_SIDE_ARM", 2)
    settings = Settings(_env_file=None, embedding_provider="deterministic")

    # an example takes a second, so a failing one is not made smaller
    @hypothesis_settings(max_examples=6, phases=[Phase.explicit, Phase.reuse, Phase.generate])
    @given(orders())
    def holds(given: tuple[list[MessageIn], list[MessageIn]]) -> None:
        one, other = given
        assert contexts(shared, one, settings) == contexts(shared, other, settings)

    holds()


@given(st.permutations(range(1, 13)), st.permutations(range(1, 5)))
def test_equal_candidates_are_ranked_by_time_and_their_platforms_ids(
    numbers: list[int], sessions: list[int]
) -> None:
    def ranked(numbers: Sequence[int], sessions: Sequence[int]) -> list[str]:
        equals = [
            candidate(
                number,
                "the pump leaks",
                session=sessions[n // 3],
                place=n % 3,
                terms={"pump": 1},
                external_id=str(98 + n),
                sent_at=START + timedelta(minutes=n % 2),
            )
            for n, number in enumerate(numbers)
        ]
        statistics = Statistics(messages=100, mean_length=5, document_frequency={"pump": 12})
        question = parse.read("what is the latest about the pump?", [], START, START, "english")
        hits = rank.rank(question, equals, statistics, Weights())
        return [hit.candidate.message.external_id for hit in hits]

    assert ranked(numbers, sessions) == ranked(range(1, 13), range(1, 5))
