"""The doctor finds what is wrong, says what to do, mends what is safe to mend, and finds nothing in what is well."""

import time
from contextlib import closing
from typing import Any

import psycopg
import pytest
import redis as redis_client

from ops.local import stack
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from pipeline.enrich.summaries import prompts
from pipeline.ingest.accept import accept, report_left_out
from pipeline.operations import retention
from pipeline.operations.doctor import check_servers, collect
from pipeline.operations.doctor import diagnose as diagnosis
from pipeline.operations.doctor.facts import Broker, Facts, Login, Server, Spaces, worst
from pipeline.operations.status import JobCounts
from pipeline.store.connections.database import Database
from pipeline.store.operations import stats
from pipeline.store.search import vector_search
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.commands.conftest import Run, Workers
from tests.conftest import MIGRATED, TENANT, Templates, also_partitioned, message, refusing
from tests.harness.doctor import as_superuser, diagnose, found, may_mend
from tests.harness.pipeline import rows
from tests.providers.chat_server import ChatServer, Reply, Request, refused
from workers.app import make_app
from workers.queues import ACCEPT, QUEUES, note_sweep

CHAT = "test:1"
LOGINS = [Login(setting="BACKSCROLL_DATABASE_URL"), Login(setting="BACKSCROLL_MAINTENANCE_DATABASE_URL")]


def fill(database: Database) -> None:
    """Two sessions of a chat, all done."""
    given = [message(n, f"the boiler makes noise number {n}") for n in (0, 1, 2, 3, 4, 60, 61, 62, 63, 64)]
    accept(database, TENANT, ChatIn(chat_id=CHAT), given)
    Workers(database, Settings(_env_file=None, summarize_debounce_seconds=0)).finish()


@pytest.fixture
def memory() -> None:
    """Stories that use this begin with what `fill` makes."""


@pytest.fixture
def template(request: pytest.FixtureRequest, templates: Templates) -> str:
    return templates("diagnosed", fill) if "memory" in request.fixturenames else MIGRATED


def test_a_queue_without_a_worker_is_found(run: Run, settings: Settings) -> None:
    # what a worker that was stopped left behind would be an error
    with closing(make_app(settings)) as app:
        app.control.purge()
    result = run("doctor")
    assert result.code == 5
    for queue in QUEUES:
        assert f"no worker serves the queue {queue}" in result.out
    assert "backscroll worker embed" in result.out


def test_redis_and_postgres_away_are_findings_and_not_failures(
    run: Run, memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSCROLL_REDIS_URL", "redis://127.0.0.1:1/0")
    assert found(run) == {"redis": "error"}
    monkeypatch.setenv("BACKSCROLL_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    away = run("doctor")
    assert (away.code, "BACKSCROLL_DATABASE_URL cannot be used" in away.out) == (6, True)


@pytest.mark.parametrize("how", ["full", "no scripts"])
def test_a_redis_that_answers_and_refuses_is_a_finding_and_not_a_failure(
    run: Run, memory: None, redis: EmbeddedRedis, how: str
) -> None:
    with refusing(redis, how):
        told = diagnose(run)["findings"]
        status = run("status")
    assert [(each["check"], each["severity"]) for each in told] == [("redis", "error")]
    assert told[0]["what"].startswith(("Redis takes no writes: ", "Redis does not let the login of "))
    assert (status.code, told[0]["what"] in status.out.replace("\n", " ")) == (0, True)
    assert found(run) == {}


def test_a_payload_that_no_worker_takes_is_found_by_its_age(
    run: Run, memory: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_servers, "ACCEPT_SECONDS", 1.0)
    with make_app(settings) as app:

        def send(text: str) -> None:
            app.send_task("backscroll.ingest", args=[text * 1000], queue=ACCEPT.full_name)

        try:
            send("старое сообщение")
            note_sweep(app)
            time.sleep(2.1)
            # What comes after it makes it no younger
            send("新消息 📬")
            note_sweep(app)
            assert found(run) == {"accept": "error"}
        finally:
            app.control.purge()
        note_sweep(app)
    assert found(run) == {}


def test_a_transaction_that_waits_for_its_client_is_found(
    run: Run, memory: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.database_url
    monkeypatch.setattr(collect, "HELD_UP_SECONDS", 0.5)
    with psycopg.connect(settings.database_url.get_secret_value()) as stopped:
        # Given a process that was stopped between two statements, and one that was in the middle of one
        stopped.execute("SELECT 1")
        with psycopg.connect(settings.database_url.get_secret_value()) as half:
            half.pgconn.enter_pipeline_mode()
            half.pgconn.send_query_params(b"SELECT $1::text", ["наполовину".encode()])
            half.pgconn.send_flush_request()
            half.pgconn.flush()
            time.sleep(0.7)
            (finding,) = diagnose(run)["findings"]
            half.close()
    assert (finding["check"], "2 transactions" in finding["what"]) == ("held-up", True)
    assert found(run) == {}


def test_words_that_could_not_be_kept_are_found_and_what_is_meant_to_be_left_out_is_not(
    run: Run, database: Database
) -> None:
    report_left_out(database, TENANT, "slack", {"kind": 7, "no_text": 1, "kept_out": 2}, {})
    assert found(run) == {}
    report_left_out(database, TENANT, "slack", {"unreadable": 1200, "cut": 1}, {})
    (finding,) = diagnose(run)["findings"]
    assert (finding["check"], finding["severity"]) == ("left-out", "warning")
    assert finding["what"].startswith("1,200 unreadable from slack, 1 cut from slack of tenant default")
    # and the status has all of it
    assert run("status", "--json").json["today"]["left_out:slack:kind"] == 7


def test_an_invalid_index_is_found_and_built_anew_by_the_owner(
    run: Run,
    memory: None,
    settings: Settings,
    postgres: EmbeddedPostgres,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'messages_order'::regclass"
    as_superuser(postgres, database_name, broken)
    said = diagnose(run)["findings"]
    assert [(each["check"], each["fixable"]) for each in said] == [("index", True)]
    # it takes the owner of the tables
    assert found(run, "--fix") == {"index": said[0]["severity"]}
    may_mend(settings, monkeypatch)
    mended = diagnose(run, "--fix")
    assert (mended["findings"], mended["mended"]) == ([], ["rebuilt the index messages_order"])


@also_partitioned
def test_an_index_of_vectors_is_built_for_a_large_chat_and_dropped_where_none_is_large(
    run: Run, memory: None, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a chat of ten messages, which are many here
    may_mend(settings, monkeypatch)
    monkeypatch.setattr(vector_search, "EXACT_UP_TO", 5)
    ((table,),) = rows(database, "SELECT DISTINCT tableoid::regclass::text FROM message_vectors")
    # Then an index would help it, and is built
    assert found(run) == {"index": "warning"}
    mended = diagnose(run, "--fix")
    assert (mended["findings"], mended["mended"]) == ([], [f"built the index {table}_space_1"])
    # When it is hardly too small any more it stays
    monkeypatch.setattr(vector_search, "EXACT_UP_TO", 15)
    assert found(run) == {}
    # And when no chat is large it goes, unless other tenants were not looked at
    monkeypatch.setattr(vector_search, "EXACT_UP_TO", 20_000)
    assert found(run, "--tenant", TENANT) == {}
    mended = diagnose(run, "--fix")
    assert (mended["findings"], mended["mended"]) == ([], [f"dropped the index {table}_space_1"])


def test_a_language_model_that_cannot_be_asked_is_found_and_what_it_is_sent_is_said(
    run: Run, memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSCROLL_SESSION_SUMMARY_MODEL", "small-1")
    assert found(run) == {"summaries": "error"}
    server = ChatServer()
    with server.running():
        monkeypatch.setenv("BACKSCROLL_OPENAI_BASE_URL", server.url)
        assert found(run) == {}
        # it is asked where that is asked for
        assert server.requests == []
        server.replies(refused("no such model", 404))
        assert found(run, "--model") == {"summaries": "error"}
        well = diagnose(run, "--model")
        assert (well["findings"], well["sent"]) == ([], ["Nothing would be sent to another machine"])
        # as a summary is asked for
        assert server.requests[-1]["response_format"]["json_schema"]["schema"] == prompts.SCHEMA
    monkeypatch.setenv("BACKSCROLL_OPENAI_BASE_URL", "https://models.example.org/v1")
    summaries, facts = diagnose(run)["sent"]
    assert summaries.startswith("Sessions are sent to models.example.org:443, where small-1 summarizes them")
    assert "small-1 learns facts" in facts


def test_a_model_that_would_not_summarize_is_found_and_what_its_endpoint_cannot_do_is_said(
    run: Run, memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def particular(request: Request) -> Reply:
        if "max_tokens" in request:
            return refused("max_tokens ist unbekannt: max_completion_tokens")
        if "response_format" in request:
            return refused("несовместимый response_format")
        return Reply(text="", finish_reason="length")

    monkeypatch.setenv("BACKSCROLL_SESSION_SUMMARY_MODEL", "denkt-1")
    server = ChatServer()
    server.answer = particular
    with server.running():
        monkeypatch.setenv("BACKSCROLL_OPENAI_BASE_URL", server.url)
        told = diagnose(run, "--model")
    (finding,) = told["findings"]
    assert (finding["check"], finding["severity"]) == ("summaries", "error")
    assert "BACKSCROLL_LLM_ANSWER_TOKENS" in finding["what"]
    assert [sentence.split(" ", 3)[3] for sentence in told["learned"]] == [
        "has no JSON mode: only the instructions ask for JSON",
        "takes no JSON schema: its answers are asked for as JSON without one",
        "takes no max_tokens: the room for an answer is sent as max_completion_tokens",
    ]


def test_processes_that_may_open_more_connections_than_postgres_has_are_found(
    run: Run, database: Database
) -> None:
    api = stats.RunningProcess("api", "häuschen", 7, {}, database.connections)
    with database.tenant(TENANT) as connection:
        stats.state_process(connection, api)
    assert found(run) == {}
    with database.tenant(TENANT) as connection:
        stats.state_process(connection, api._replace(kind="worker ingest", connections=190))
    (finding,) = diagnose(run)["findings"]
    assert finding["check"] == "connections"
    assert f"{190 + database.connections} connections to Postgres, which leaves them 197" in finding["what"]
    assert f"Raise max_connections by at least {database.connections - 7} " in finding["remedy"]


def test_late_and_dead_work_and_messages_aside_are_found(
    run: Run, memory: None, database: Database, settings: Settings
) -> None:
    accept(database, TENANT, ChatIn(chat_id="test:2"), [message(0), message(1)])
    rows(database, "UPDATE jobs SET due_at = now() - interval '2 h' WHERE key = 'test:2'")
    assert found(run) == {"late": "error"}
    rows(database, "UPDATE jobs SET due_at = NULL, dead_at = now() WHERE key = 'test:2'")
    rows(database, "UPDATE arrivals SET quarantined_at = now(), error = 'odd'")
    said = diagnose(run)["findings"]
    assert {each["what"] for each in said} == {
        "2 jobs of arrival were given up",
        "1 jobs of ingest were given up",
    }


def test_sessions_whose_messages_retention_has_removed_are_well_and_keep_their_summaries(
    run: Run, memory: None, database: Database
) -> None:
    kept = "SELECT id, message_count, summary_text FROM conversation_sessions ORDER BY id"
    before = rows(database, kept)
    keep = retention.retention_of(Settings(_env_file=None, retention_messages_per_chat=3))
    assert sum(retention.prune(database, TENANT, keep).values()) == 7
    assert found(run) == {}
    run("doctor", "--fix")
    assert rows(database, kept) == before


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("ALTER DATABASE {name} SET default_transaction_read_only = on", {"read-only": "error"}),
        (
            "DROP EXTENSION vector CASCADE; DROP TABLE message_vectors, session_vectors, memory_vectors",
            {"extension": "warning"},
        ),
        (
            "UPDATE embedding_spaces SET name = 'other', model = 'other', status = 'retired'",
            {"space": "error", "retired": "warning"},
        ),
    ],
)
def test_what_is_wrong_with_the_database_is_found(
    run: Run,
    memory: None,
    postgres: EmbeddedPostgres,
    database_name: str,
    damage: str,
    expected: dict[str, str],
) -> None:
    as_superuser(postgres, database_name, damage.format(name=database_name))
    assert found(run) == expected


# What its messages say of a chat's sessions and counters, and all that was made of them.
AS_IT_WAS = """
    SELECT started_at, ended_at, s.message_count, summary_text, c.message_count, c.lexeme_count,
        (SELECT count(*) FROM session_vectors v WHERE v.session_id = s.id), (SELECT count(*) FROM message_vectors)
    FROM conversation_sessions s JOIN chats c USING (chat_id)
    WHERE status <> 'merged' AND session_key = '' ORDER BY started_at
"""


@pytest.mark.parametrize(
    "damage",
    [
        {
            "sessions": "DELETE FROM conversation_sessions WHERE id = (SELECT max(id) FROM conversation_sessions)",
            "counters": "UPDATE chats SET message_count = 7",
            "missing": "UPDATE conversation_sessions SET status = 'closed', summary_revision = NULL",
        },
        {
            "sessions": "UPDATE conversation_sessions SET message_count = message_count + 1",
            "counters": "UPDATE chats SET lexeme_count = lexeme_count + 1",
        },
        {
            "sessions": "UPDATE conversation_sessions SET session_key = 'elsewhere'",
            "missing": "DELETE FROM session_vectors",
        },
    ],
    ids=["gone", "counted", "elsewhere"],
)
def test_what_is_damaged_is_found_and_made_as_it_was(
    run: Run, memory: None, database: Database, workers: Workers, damage: dict[str, str]
) -> None:
    before = rows(database, AS_IT_WAS)
    for statement in damage.values():
        rows(database, statement)
    mended = diagnose(run, "--fix")
    assert mended["mended"]
    workers.finish()
    assert rows(database, AS_IT_WAS) == before
    assert found(run) == {}


def test_vectors_without_a_row_are_deleted_and_arrivals_that_nobody_owes_are_placed(
    run: Run,
    memory: None,
    postgres: EmbeddedPostgres,
    database_name: str,
    database: Database,
    workers: Workers,
) -> None:
    accept(database, TENANT, ChatIn(chat_id="test:2"), [message(n) for n in range(5)])
    # without the triggers that would delete the vector, too
    orphan = "SET session_replication_role = replica; DELETE FROM messages WHERE external_id = 'm60'"
    as_superuser(postgres, database_name, "DELETE FROM jobs", orphan)
    assert found(run).items() >= {"orphans": "error", "missing": "error"}.items()
    assert "deleted 1 vectors without a row" in diagnose(run, "--fix")["mended"]
    workers.finish()
    assert rows(database, "SELECT count(*) FROM arrivals") == [(0,)]


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        ({"skew_seconds": 0.5, "broker": Broker(appendonly="yes", policy="noeviction")}, None),
        ({"skew_seconds": -5}, "warning"),
        ({"skew_seconds": 90}, "error"),
        ({"broker": Broker(appendonly="no", policy="noeviction")}, "warning"),
        ({"broker": Broker(appendonly="yes", policy="allkeys-lru")}, "error"),
        # of a series with fixes, of one that gets none any more, and of a later one than is known here
        ({"broker": Broker(release="Redis 8.6.6")}, "warning"),
        ({"broker": Broker(release="Redis 8.6.7")}, None),
        ({"broker": Broker(release="Redis 7.0.15")}, "warning"),
        ({"broker": Broker(release="Valkey 12.0.0")}, None),
    ],
)
def test_clocks_that_differ_and_a_redis_that_may_lose_tasks_are_found(
    facts: dict[str, Any], severity: str | None
) -> None:
    assert worst(diagnosis.diagnose(Facts(logins=LOGINS, **facts))) == severity


def test_it_says_what_runs_and_what_ends_again_and_again(
    run: Run, memory: None, settings: Settings, redis: EmbeddedRedis
) -> None:
    with redis_client.Redis.from_url(redis.url, decode_responses=True) as client:
        info = client.info("server")
    running = stack.Running(
        **dict.fromkeys(("api_key", "database_url", "maintenance_database_url", "owner_database_url"), ""),
        pid=1,
        api_url="http://127.0.0.1:8423",
        redis_url="",
        tenant=settings.tenant,
        metrics_url="http://127.0.0.1:8425",
        failing={"metrics": "metrics ended with code 1, again and again. Its log: metrics.log"},
    )
    settings.data_dir.mkdir(exist_ok=True)
    with stack.alone(settings.data_dir):
        stack.publish(settings.data_dir, running)
        told, shown = diagnose(run), run("status").out
    assert told["versions"][0].startswith("Postgres 1")
    assert told["versions"][1].split() in (
        ["Redis", info["redis_version"]],
        ["Valkey", info.get("valkey_version")],
    )
    assert [(each["check"], each["severity"]) for each in told["findings"]] == [("process", "error")]
    assert told["findings"][0]["what"] == running.failing["metrics"]
    # as status does, and where it listens in earnest
    assert running.failing["metrics"] in shown
    assert "HTTP API at http://127.0.0.1:8423, /metrics at http://127.0.0.1:8425" in shown


def test_languages_that_the_embedding_model_does_not_know_are_said() -> None:
    stored = {"german": 300, "german+english": 50, "turkish": 80, "english": 570, "simple": 4000}
    for model, told in (("all-MiniLM-L6-v2", ["43% of the messages are in chats in German"]), ("bge-m3", [])):
        spaces = Spaces(active="m", embedder="m", embedder_status="active", model=model, languages=stored)
        findings = diagnosis.diagnose(Facts(logins=LOGINS, spaces=spaces))
        assert [f.what.split(";")[0] for f in findings if f.check == "languages"] == told


def test_where_similarities_were_not_measured_it_is_said_that_words_alone_judge() -> None:
    for measured, stored, expected in ((True, 9, 0), (False, 9, 1), (False, 0, 0)):
        spaces = Spaces(
            active="m",
            embedder="m",
            embedder_status="active",
            languages={"english": stored} if stored else {},
            is_calibrated=measured,
        )
        findings = diagnosis.diagnose(Facts(logins=LOGINS, spaces=spaces))
        assert len([f for f in findings if f.check == "calibration" and "words only" in f.why]) == expected


def test_facts_at_their_worst_are_all_told_with_what_to_do() -> None:
    facts = Facts(
        logins=[Login(setting="BACKSCROLL_DATABASE_URL", role="postgres", unbound=True)],
        server=Server(version=14, pgvector="0.7.4", migration=None, needed="0004", vector_tables=True),
        spaces=Spaces(active="old", embedder="other", embedder_status=None, model_problem="no"),
        broker=Broker(appendonly="yes", used_bytes=99, max_bytes=100, unserved={"embed": 3}),
        skew_seconds=3600,
        jobs=[
            JobCounts(
                kind="embed",
                pending=3,
                running=0,
                retrying=0,
                dead=1,
                oldest_seconds=4000,
                late=3,
                late_seconds=4000,
            )
        ],
        stopped_providers=["models.example:443"],
    )
    findings = diagnosis.diagnose(facts)
    assert len(findings) == 13
    assert all(finding.what and finding.why and finding.remedy for finding in findings)
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities)  # errors first
