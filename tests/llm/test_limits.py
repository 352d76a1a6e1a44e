"""All workers share a provider's limits, and one that is down is left alone by all of them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from pipeline.llm import limits
from pipeline.llm.gateway import Gateway, ModelCall
from pipeline.llm.limits import Limits, Wait, admit, after_answer, after_failure
from pipeline.store.connections.database import Database
from pipeline.store.llm_calls import Provider
from schemas.errors import ProviderUnavailable
from schemas.settings import Settings
from tests.conftest import TENANT
from tests.harness.pipeline import rows
from tests.llm.chat_models import ANSWER, ScriptedModel, asking
from tests.llm.conftest import CHAT, at

CALL = ModelCall(tenant_id=TENANT, chat_id=CHAT, purpose="hyde")
DOWN = ProviderUnavailable("no answer")
NEW = Provider(provider="models.example:443")


@pytest.fixture
def elsewhere(settings: Settings) -> Iterator[Database]:
    """The same database, as another worker process has it."""
    database = Database.from_settings(settings, pool_size=20)
    yield database
    database.close()


def ask(gateway: Gateway, prompt: str = "", tenant: str = TENANT) -> Exception | None:
    call = ModelCall(tenant_id=tenant, chat_id=CHAT, purpose="hyde")
    try:
        gateway.complete(call, asking(prompt), timeout_seconds=10)
    except ProviderUnavailable as error:
        return error
    return None


def pass_time(database: Database, seconds: float) -> None:
    """Let what is known of providers be so many seconds older."""
    names = ("stopped_at", "stopped_until", "probe_until", "requests_until", "tokens_until")
    earlier = ", ".join(f"{name} = {name} - make_interval(secs => :by)" for name in names)
    with database.tenant(TENANT) as connection:
        connection.execute(text(f"UPDATE llm_providers SET {earlier}"), {"by": seconds})
        connection.execute(
            text("UPDATE llm_slots SET expires_at = expires_at - make_interval(secs => :by)"), {"by": seconds}
        )


def test_no_worker_asks_a_provider_that_is_down_until_one_tried(
    database: Database, elsewhere: Database
) -> None:
    down, there = ScriptedModel(DOWN, DOWN, DOWN, DOWN, DOWN, ANSWER), ScriptedModel()
    mine, theirs = Gateway(database, down), Gateway(elsewhere, there)
    # Given a provider that does not answer one worker
    for n in range(limits.FAILURES_BEFORE_PAUSE):
        ask(mine, f"{n}")
    # Then no worker asks it, of whatever tenant, and each is told how long
    began = monotonic()
    for gateway, tenant in ((mine, TENANT), (theirs, TENANT), (theirs, "other")):
        error = ask(gateway, "more", tenant)
        assert isinstance(error, ProviderUnavailable)
        assert 10 < (error.retry_after or 0) <= limits.FIRST_STOP_SECONDS
    assert monotonic() - began < 2
    assert (down.calls, there.calls) == (limits.FAILURES_BEFORE_PAUSE, 0)
    # When the time is up one call tries, and the others wait for it
    pass_time(database, limits.FIRST_STOP_SECONDS)
    tried = []

    def reply(_: object) -> object:
        tried.append(ask(mine, "another"))
        return ANSWER

    assert ask(Gateway(elsewhere, ScriptedModel(reply)), "probe") is None  # type: ignore[arg-type]
    assert isinstance(tried[0], ProviderUnavailable)
    # and once it is answered all go on
    assert ask(mine, "another") is None
    assert rows(database, "SELECT failures, stops, stopped_until FROM llm_providers") == [(0, 0, None)]


def test_no_worker_asks_sooner_than_a_provider_says(database: Database, elsewhere: Database) -> None:
    assert ask(Gateway(database, ScriptedModel(ProviderUnavailable("429", retry_after=90)))) is not None
    model = ScriptedModel()
    error = ask(Gateway(elsewhere, model))
    assert isinstance(error, ProviderUnavailable)
    assert 85 < (error.retry_after or 0) <= 90
    assert model.calls == 0
    pass_time(database, 91)
    assert ask(Gateway(elsewhere, model)) is None


def test_all_workers_together_make_so_many_calls_at_once(database: Database, elsewhere: Database) -> None:
    model = ScriptedModel(seconds=0.2)
    shared = Limits(concurrent=2)
    gateways = [Gateway(elsewhere, model, shared=shared) for _ in range(2)]
    with ThreadPoolExecutor(6) as pool:
        errors = list(pool.map(lambda n: ask(gateways[n % 2], f"{n}"), range(6)))
    assert errors == [None] * 6
    assert model.most_at_once == 2
    assert rows(database, "SELECT count(*) FROM llm_slots") == [(0,)]


def test_the_place_of_a_killed_worker_is_free_after_its_time(database: Database) -> None:
    shared = Limits(concurrent=1)
    with database.tenant(TENANT) as connection:
        limits.enter(connection, NEW.provider, shared, tokens=1, timeout_seconds=30)
    gateway = Gateway(database, ScriptedModel(), shared=shared)
    assert ask(gateway) is not None
    pass_time(database, 41)
    assert ask(gateway) is None


@given(
    amounts=st.lists(st.integers(1, 500), min_size=1, max_size=60),
    pauses=st.lists(st.floats(0, 20), min_size=60, max_size=60),
)
def test_a_rate_is_kept_over_any_stretch_of_time(amounts: list[int], pauses: list[float]) -> None:
    known, now, made = NEW, 0.0, []
    allowed = Limits(tokens_per_minute=600)
    for amount, pause in zip(amounts, pauses, strict=False):
        now += pause
        while isinstance(
            admitted := admit(known, allowed, at(now), tokens=amount, in_use=0, expires_at=at(now)), Wait
        ):
            now += admitted.seconds
        known = admitted
        made.append((now, amount))
    for n, (begin, _) in enumerate(made):
        until = begin
        for until, _ in made[n:]:
            within = [amount for moment, amount in made[n:] if moment <= until]
            # the last of them may be as large as it likes, and times are cut to microseconds
            assert sum(within[:-1]) <= (until - begin + limits.BURST_SECONDS) * 10 + 0.01


def test_calls_made_before_a_stop_neither_prolong_nor_end_it() -> None:
    stopped = after_failure(NEW, at(0), at(5), 60)
    assert after_failure(stopped, at(1), at(6), None) == stopped
    assert after_answer(stopped, at(1), more_tokens=0, limits=Limits()) == stopped
    assert after_failure(stopped, at(1), at(6), 100).stopped_until == at(106)
    assert after_answer(stopped, at(66), more_tokens=0, limits=Limits()).stopped_until is None
    assert after_failure(stopped, at(66), at(67), None).stopped_until == at(67) + timedelta(seconds=30)


def test_a_question_whose_time_is_over_asks_and_blames_nobody(database: Database) -> None:
    model = ScriptedModel()
    for n in range(limits.FAILURES_BEFORE_PAUSE + 1):
        with pytest.raises(ProviderUnavailable, match="no time was left"):
            Gateway(database, model).complete(CALL, asking(f"什么时候 {n}"), timeout_seconds=1e-6)
    assert model.calls == 0
    assert ask(Gateway(database, model)) is None


def test_a_provider_that_is_too_slow_for_a_question_is_not_down_for_the_summaries(database: Database) -> None:
    slow = Gateway(database, ScriptedModel(DOWN, seconds=5))
    for n in range(limits.FAILURES_BEFORE_PAUSE + 1):
        with pytest.raises(ProviderUnavailable):
            slow.complete(CALL, asking(f"{n}"), timeout_seconds=0.2)
    assert ask(Gateway(database, ScriptedModel())) is None
    # nor does it keep them from trying whether it is back
    ask(Gateway(database, ScriptedModel(ProviderUnavailable("429", retry_after=1))), "busy")
    pass_time(database, 2)
    with pytest.raises(ProviderUnavailable):
        slow.complete(CALL, asking("probe"), timeout_seconds=0.2)
    assert ask(Gateway(database, ScriptedModel())) is None
