"""Flags hold where work is done: what waits is neither done nor sent while one is off, whatever made it due."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from pipeline.clients import factory
from pipeline.clients.openai_chat import OpenAIChatModel
from pipeline.ingest import accept
from pipeline.jobs import dead_letters, runner
from pipeline.jobs.dead_letters import JobFilter
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.operations.doctor import collect
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.jobs import backfill_rows, jobs
from schemas.backfills import BackfillRequest
from schemas.kinds import NEEDS
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.pipeline import place, rows
from tests.providers.chat_server import ChatServer
from workers.resources import Resources

MEMORY = ChatIn(chat_id="test:чат", title="Дом")
WAITS = "SELECT kind, key, attempts, claimed IS NULL, dead_at IS NULL FROM jobs WHERE kind = '{kind}' ORDER BY key"
Held = Callable[..., Resources]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with (server := ChatServer()).running():
        yield server


@pytest.fixture
def held(settings: Settings, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """`held(rollups_enabled=False)`: what a worker has whose settings name a language model, with these flags."""
    made: list[Resources] = []
    clients: list[OpenAIChatModel] = []
    make_model = factory.make_chat_model

    def remembered(*given: Any, **named: Any) -> OpenAIChatModel:
        clients.append(make_model(*given, **named))
        return clients[-1]

    monkeypatch.setattr(factory, "make_chat_model", remembered)

    def make(**flags: Any) -> Resources:
        named = {"session_summary_model": "small-1", "openai_base_url": server.url, "rollups_enabled": True}
        key = {"openai_api_key": SecretStr("k"), "embedding_provider": "deterministic"}
        made.append(Resources(settings.model_copy(update=named | key | flags)))
        return made[-1]

    yield make
    for resources in made:
        resources.database.close()
    for client in clients:
        client.close()


def work(held: Resources, *kinds: str) -> dict[str, runner.Outcome]:
    """Try what is due of some kinds, as their workers do; the last outcome of each."""
    outcomes = {}
    for kind in kinds:
        while (
            outcome := runner.run(held.database, kind, held.handler(kind), held.policy(kind))
        ).finished > outcome.passed_over:
            pass
        outcomes[kind] = outcome
    return outcomes


@pytest.fixture
def session(database: Database) -> str:
    """A session that waits to be summarized, learned from and rolled up; its job's key."""
    said = [message(n, f"remember: the boiler shows error E{n}", id=f"1-{n}") for n in range(5)]
    accept.accept(database, TENANT, MEMORY, said)
    place(database)
    rows(database, "UPDATE jobs SET due_at = now() WHERE kind <> 'ingest'")
    with database.tenant(TENANT) as connection:
        jobs.enqueue(connection, TENANT, "rollup", [f"{MEMORY.chat_id} 2026-03-02"])
    ((key,),) = rows(database, "SELECT key FROM jobs WHERE kind = 'summarize'")
    return str(key)


FLAGS = [
    (kind, flag)
    for kind, needs in NEEDS.items()
    if kind in {"summarize", "rollup", "extract"}
    for flag in needs
]


@pytest.mark.parametrize(("kind", "flag"), FLAGS)
def test_a_job_waits_at_no_attempt_while_a_flag_of_its_kind_is_off(
    database: Database, session: str, held: Held, server: ChatServer, kind: str, flag: str
) -> None:
    before = rows(database, WAITS.format(kind=kind))
    off = held(**{flag: False})
    outcome = work(off, kind)[kind]
    assert (outcome.claimed, outcome.waits) == (0, f"BACKSCROLL_{flag.upper()} is off")
    assert (rows(database, WAITS.format(kind=kind)), server.requests) == (before, [])
    # and is claimed when it is on again
    assert runner.run(database, kind, held().handler(kind), held().policy(kind)).claimed == 1


def test_no_way_leads_around_a_flag(database: Database, session: str, held: Held, server: ChatServer) -> None:
    off = held(session_memory_enabled=False)
    # Given a job that was given up, when it is replayed
    rows(database, "UPDATE jobs SET due_at = NULL, dead_at = now() WHERE kind = 'summarize'")
    items, _ = dead_letters.listing(database, TENANT, JobFilter(state="dead"))
    dead_letters.replay(database, items, lambda *_: None)
    # When a backfill is started for it, and one of answers
    request = BackfillRequest(kind="summarize", missing_only=False)
    started = backfill.start(database, TENANT, request, Current.of(off.settings))
    backfill.start(database, TENANT, BackfillRequest(kind="answers"), Current.of(off.settings))
    work(off, "backfill")
    with database.tenant(TENANT) as connection:
        stated = {(each.state, each.error) for each in backfill_rows.listing(connection, 2)}
    assert stated == {("running", "it waits, as BACKSCROLL_SESSION_MEMORY_ENABLED is off")}
    # When whoever knows of no flag mends what is missing
    (tenant,) = collect.tenant_data(database, {TENANT: [MEMORY.chat_id]}, SESSION_POLICY)
    list(collect.mend_tenant(database, tenant, SESSION_POLICY))
    # Then nothing is done, and nothing is sent
    work(off, "summarize", "extract", "rollup", "backfill", "embed")
    assert server.requests == []
    assert rows(database, "SELECT count(*) FROM memories") == [(0,)]
    assert rows(database, "SELECT attempts FROM jobs WHERE kind = 'summarize'") == [(0,)]
    # and with the flag back all goes on, the backfill too
    rows(database, "UPDATE jobs SET due_at = now()")
    work(held(), "backfill", "summarize")
    assert rows(database, "SELECT summary_model FROM conversation_sessions") == [("small-1",)]
    with database.tenant(TENANT) as connection:
        now = backfill_rows.get(connection, started.id)
    assert now is not None
    assert (now.raised, now.error) == (1, None)


def test_what_a_chat_waits_for_is_left_while_its_memory_is_off(
    database: Database, session: str, held: Held, server: ChatServer
) -> None:
    def switch(*, on: bool) -> None:
        with database.tenant(TENANT) as connection:
            chats.ensure(connection, TENANT, ChatIn(chat_id=MEMORY.chat_id, memory=on))

    # Given a chat whose memory was switched off while its jobs wait
    switch(on=False)
    worker = held()
    work(worker, "summarize", "extract", "embed")
    # Then nothing is made of it, and each job says why it waits
    assert server.requests == []
    assert rows(database, "SELECT count(*) FROM message_vectors") == [(0,)]
    left = rows(
        database,
        "SELECT DISTINCT kind, attempts, last_error, due_at > now() FROM jobs "
        "WHERE kind <> 'rollup' AND due_at IS NOT NULL ORDER BY kind",
    )
    why = "waits: its memory is off"
    assert left == [(kind, 0, why, True) for kind in ("embed", "extract", "summarize")]
    # When it is on again, all is done
    switch(on=True)
    rows(database, "UPDATE jobs SET due_at = now() WHERE due_at IS NOT NULL")
    work(worker, "summarize", "extract", "embed")
    assert rows(database, "SELECT summary_model FROM conversation_sessions") == [("small-1",)]
    assert rows(database, "SELECT count(*) FROM message_vectors") == [(5,)]


def test_without_session_memory_messages_are_embedded_and_summaries_wait(
    database: Database, session: str, held: Held
) -> None:
    # Given a summary that is not embedded yet when session memory is switched off
    work(held(session_summary_model="extractive-v1"), "summarize")
    off = held(session_memory_enabled=False)
    work(off, "embed")
    vectors = "SELECT (SELECT count(*) FROM message_vectors), (SELECT count(*) FROM session_vectors)"
    assert rows(database, vectors) == [(5, 0)]
    assert rows(database, "SELECT key, attempts FROM jobs WHERE kind = 'embed'") == [(session, 0)]
    rows(database, "UPDATE jobs SET due_at = now() WHERE kind = 'embed'")
    work(held(), "embed")
    assert rows(database, vectors) == [(5, 1)]
