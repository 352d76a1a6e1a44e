"""An operator watches a deployment by `/metrics`: what waits, what was made, what is away."""

from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Connection, text

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.ingest import accept
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.llm import limits
from pipeline.llm.gateway import Gateway, ModelCall
from pipeline.operations import status
from pipeline.recall import build_context
from pipeline.store import llm_calls
from pipeline.store.connections.database import Database
from pipeline.store.operations import stats
from pipeline.store.operations.counters import DayFigure
from pipeline.store.operations.stats import RunningProcess
from schemas.errors import ProviderUnavailable
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.api.conftest import away
from tests.conftest import TENANT, copied, message, refusing, settings_of
from tests.harness.monitoring import METRIC, expressions, labels_named
from tests.harness.pipeline import place, run
from tests.llm.chat_models import ScriptedModel, asking
from tests.metrics.conftest import Shown, read, serving
from tests.waiting import until
from workers.metrics.families import Totals

CHATS = ("app:сад", "app:客厅", "app:الحديقة", 'app:"quoted"\n\\{chat}')
NAMES = ("Δήμητρα", "小明", "Боб")


@pytest.fixture(scope="module")
def settings(
    postgres: EmbeddedPostgres, redis: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """The settings of a database of this module's own."""
    with copied(postgres, "watched") as name:
        folder = tmp_path_factory.mktemp("watched")
        (folder / "postgres-18").mkdir()
        yield settings_of(postgres, name, redis_url=redis.url, data_dir=folder, owner_database_url=None)


@pytest.fixture(scope="module")
def database(settings: Settings) -> Iterator[Database]:
    database = Database.from_settings(settings)
    yield database
    database.close()


@pytest.fixture(scope="module")
def ask(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    """Asks the process of `/metrics`, which has watched since before the first story."""
    folder = tmp_path_factory.mktemp("metrics")
    with serving(settings, folder, BACKSCROLL_LLM_DAILY_TOKENS="1000") as asking:
        yield asking


def fresh(ask: Callable[[], str], holds: Callable[[Shown], bool]) -> Shown:
    """What is shown once it holds."""
    shown: Shown = {}

    def look() -> bool:
        shown.clear()
        shown.update(read(ask()))
        return holds(shown)

    until(look, "figures", seconds=90)
    return shown


def hand_over(database: Database, chat: str, count: int = 6) -> None:
    said = [message(n, f"the boiler shows E4{n}", sender_name=NAMES[n % 3]) for n in range(count)]
    accept.accept(database, TENANT, ChatIn(chat_id=chat), said)


def test_what_waits_is_shown_until_it_is_done_and_what_was_made_is_counted(
    ask: Callable[[], str], database: Database, settings: Settings, policy: Policy
) -> None:
    # Given a process that watches, when messages come, and one of them again
    hand_over(database, CHATS[0])
    hand_over(database, CHATS[0], count=1)
    shown = fresh(ask, lambda shown: shown['messages_total outcome="known"'] == 1)
    assert shown["messages_unplaced"] == shown['messages_total outcome="accepted"'] == 6
    assert shown['jobs kind="ingest" state="pending"'] == 1
    assert shown['lag_seconds until="placed"'] > 0
    assert shown['lag_seconds until="embedded"'] >= 0
    # When they are placed and embedded
    place(database, SessionPolicy.of(settings), policy)
    run(database, "embed", embed.embedder(database, DeterministicEmbedder()), policy)
    space = 'embedded_total space="deterministic/deterministic-hash-v1/256"'
    shown = fresh(ask, lambda shown: shown[space] == 6)
    assert shown["messages_unplaced"] == shown['lag_seconds until="placed"'] == 0
    assert shown['jobs kind="embed" state="pending"'] == 0
    # and two contexts are served, the first of a chat of which little is known
    for budget in (2000, 60):
        query = ContextQuery(chat_id=CHATS[0], query="What does the boiler show?", budget_tokens=budget)
        build_context(database, TENANT, query, embedder=DeterministicEmbedder(), settings=settings)
    shown = fresh(ask, lambda shown: shown["context_seconds_count"] == 2)
    stages = sum(value for name, value in shown.items() if name.startswith("context_stage_seconds_total"))
    assert stages == pytest.approx(shown["context_seconds_sum"], abs=0.005)
    assert shown["contexts_degraded_total"] == 1
    # and how surely they answer
    kinds = ("strong", "weak", "none", "unjudged")
    of_kind = [shown[f'contexts_total evidence="{kind}"'] for kind in kinds]
    assert (sum(of_kind), of_kind[-2:]) == (2, [0, 0])
    # Then the status says the same, one figure of each, and not the parts of a histogram
    counted = status.collect(database, TENANT, all_tenants=True).week
    assert (counted["contexts"], counted["embedding_writes"]) == (2, 6)
    assert not any("256" in name or "_le_" in name for name in counted)


def test_figures_read_one_after_the_other_are_of_one_moment(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given messages that are handed over between two statements of a reading
    job_counts = status.job_counts

    def counting(connection: Connection) -> list[status.JobCounts]:
        counts = job_counts(connection)
        hand_over(database, "app:between")
        return counts

    before = status.collect_figures(database, 60)
    monkeypatch.setattr(status, "job_counts", counting)
    # Then it counts neither their job nor them, and the next counts both
    assert status.collect_figures(database, 60).unplaced == before.unplaced
    monkeypatch.undo()
    after = status.collect_figures(database, 60)
    assert after.unplaced == before.unplaced + 6
    pending = [next(kind.pending for kind in read.jobs if kind.kind == "ingest") for read in (before, after)]
    assert pending[1] == pending[0] + 1


def test_what_was_left_out_is_shown_by_platform_and_reason(
    ask: Callable[[], str], database: Database
) -> None:
    name = 'left_out_total platform="telegram" reason="cut"'
    before = fresh(ask, lambda shown: name in shown)[name]
    accept.report_left_out(database, TENANT, "telegram:-100", {"cut": 3, "unreadable": 0}, {"Боб": 1})
    shown = fresh(ask, lambda shown: shown[name] == before + 3)
    assert shown['left_out_total platform="slack" reason="unreadable"'] == 0


def test_every_metric_and_label_that_the_dashboard_and_the_alerts_name_is_shown(
    ask: Callable[[], str], database: Database
) -> None:
    with database.tenant("") as connection:
        llm_calls.lock_provider(connection, "models.example:443")
    fresh(ask, lambda shown: any(name.startswith("provider_stopped") for name in shown))
    families = list(text_string_to_metric_families(ask()))
    shown = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    shown["up"] = {"job"}
    for expression, told in expressions():
        names = METRIC.findall(expression)
        assert names, expression
        assert set(names) <= shown.keys(), expression
        assert labels_named(expression, told) <= set().union(*(shown[name] for name in names)), expression


def test_more_chats_make_no_more_series_and_no_name_is_told(
    ask: Callable[[], str], database: Database
) -> None:
    accepted = 'messages_total outcome="accepted"'
    earlier = read(ask()).get(accepted, 0)
    hand_over(database, f"{CHATS[0]}:first")
    before = fresh(ask, lambda shown: shown[accepted] == earlier + 6)
    for number in range(8):
        hand_over(database, f"{CHATS[number % len(CHATS)]}:{number}")
    after = fresh(ask, lambda shown: shown[accepted] == earlier + 9 * 6)
    assert after.keys() == before.keys()
    text = ask()
    for name in ("app:", *NAMES, f'"{TENANT}"', "boiler", "test:ann"):
        assert name not in text


def test_what_waits_for_a_setting_that_is_off_is_shown_and_not_late(
    ask: Callable[[], str], database: Database, settings: Settings, policy: Policy
) -> None:
    # Given a session whose summary has been due for hours
    hand_over(database, CHATS[3])
    place(database, SessionPolicy.of(settings), policy)
    with database.tenant(TENANT) as connection:
        late = "due_at = now() - interval '3 h', pending_since = now() - interval '3 h'"
        connection.execute(text(f"UPDATE jobs SET {late} WHERE kind = 'summarize'"))
    shown = fresh(ask, lambda shown: shown['job_late_seconds kind="summarize"'] > 3600)
    assert (shown['jobs_waiting kind="summarize"'], shown["settings_differing"]) == (0, 0)
    # When its worker runs with session memory off, and the HTTP API does not yet
    off = {"session_memory_enabled": False, "llm_daily_tokens": 5}
    for kind, stated in (("api", {}), ("worker summarize", off)):
        with database.tenant("") as connection:
            stats.state_process(connection, RunningProcess(kind, "host", 1, stated))
    # Then it waits, and is not late; what differs is counted
    shown = fresh(ask, lambda shown: shown['jobs_waiting kind="summarize"'] > 0)
    assert shown['job_late_seconds kind="summarize"'] == shown['lag_seconds until="summarized"'] == 0
    assert (shown['setting_on setting="session_memory_enabled"'], shown["settings_differing"]) == (0, 2)
    assert (shown['processes kind="api"'], shown['processes kind="metrics"']) == (1, 1)
    for kind, stated in (("api", {}), ("worker summarize", off)):
        with database.tenant("") as connection:
            stats.state_process(connection, RunningProcess(kind, "host", 1, stated), ends=True)
    fresh(ask, lambda shown: shown["settings_differing"] == 0)


def test_a_model_that_does_not_answer_is_seen(ask: Callable[[], str], database: Database) -> None:
    hand_over(database, CHATS[1])
    gateway = Gateway(database, ScriptedModel(ProviderUnavailable("no answer")))
    call = ModelCall(tenant_id=TENANT, chat_id=CHATS[1], purpose="hyde")
    for number in range(limits.FAILURES_BEFORE_PAUSE):
        with pytest.raises(ProviderUnavailable):
            gateway.complete(call, asking(f"{number}"), timeout_seconds=10)
    shown = fresh(ask, lambda shown: shown.get("model_failures_total") == limits.FAILURES_BEFORE_PAUSE)
    assert shown["model_calls_total"] == limits.FAILURES_BEFORE_PAUSE
    assert [value for name, value in shown.items() if name.startswith("provider_stopped")] == [1]
    assert shown['budget_spent_ratio limit="tokens"'] == 0


def test_while_postgres_is_away_it_says_so_and_shows_nothing_old(
    ask: Callable[[], str], postgres: EmbeddedPostgres, redis: EmbeddedRedis
) -> None:
    # a Redis that takes no tasks is down
    with refusing(redis, "a replica"):
        assert fresh(ask, lambda shown: shown["redis_up"] == 0)["postgres_up"] == 1
    fresh(ask, lambda shown: shown["redis_up"] == 1)
    with away(postgres, "watched"):
        shown = fresh(ask, lambda shown: shown["postgres_up"] == 0)
        assert not any(name.startswith(("jobs ", "messages_total", "table_bytes")) for name in shown)
        # Redis' figures are there, and the doctor finds it, too
        assert shown["redis_up"] == 1
        assert shown['queue_tasks queue="embed"'] >= 0
        fresh(ask, lambda shown: shown.get('doctor_findings severity="error"', 0) >= 2)
    fresh(ask, lambda shown: shown["postgres_up"] == 1 and 'jobs kind="embed" state="dead"' in shown)


def test_a_counter_grows_by_what_was_added_since_over_midnight_too() -> None:
    totals = Totals()
    # what was counted before it looked is of the past
    assert totals.add([DayFigure("2026-03-01", "contexts", 40.0, 40.0)])["contexts"] == 0
    after_midnight = [
        DayFigure("2026-03-01", "contexts", 42.0, 0.0),
        DayFigure("2026-03-02", "contexts", 3.0, 3.0),
    ]
    assert totals.add(after_midnight)["contexts"] == 5
    # yesterday is no longer read, and a tenant was forgotten
    assert totals.add([DayFigure("2026-03-02", "contexts", 1.0, 1.0)])["contexts"] == 5
    assert totals.add([DayFigure("2026-03-02", "contexts", 2.0, 2.0)])["contexts"] == 6
