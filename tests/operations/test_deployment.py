"""What the running processes state is what commands speak of: no secret is told, and what differs is said."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from pipeline.operations.deployment import KEPT, Deployment
from pipeline.store.connections.database import Database
from pipeline.store.operations import stats
from pipeline.store.operations.stats import RunningProcess
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace
from tests.conftest import TENANT
from workers import claim_file

SECRETS = {
    "database_url": "postgresql://app:geheim@db:5432/x",
    "maintenance_database_url": "postgresql://m:geheim@db:5432/x",
    "owner_database_url": "postgresql://o:geheim@db:5432/x",
    "backup_database_url": "postgresql://b:geheim@db:5432/x",
    "redis_url": "redis://:geheim@db:6379/0",
    "api_key": "geheim",
    "openai_api_key": "geheim",
    "openai_base_url": "https://ich:geheim@models.example.org/v1?token=geheim",
    "ollama_url": "http://ich:geheim@ollama.example.org:11434",
}
SMALL = {"session_summary_model": "small-1", "openai_api_key": "k"}


def of(**given: Any) -> Settings:
    return Settings(_env_file=None, **given)


def running(*settings: Settings, kinds: str = "summarize sweep embed") -> Deployment:
    """A worker of each of these settings, the first of which began last."""
    names = kinds.split()
    return Deployment(
        [
            RunningProcess(f"worker {names[n]}", "host", n + 1, each.stated())
            for n, each in enumerate(settings)
        ]
    )


def test_no_secret_is_stated_but_that_a_key_is_set() -> None:
    stated = of(**SECRETS, llm_daily_budget=2, session_memory_enabled=False).stated()
    assert "geheim" not in json.dumps(stated)
    assert stated == {
        "openai_api_key": KEPT.get_secret_value(),
        "openai_base_url": "https://models.example.org/v1",
        "ollama_url": "http://ollama.example.org:11434",
        "llm_daily_budget": 2.0,
        "session_memory_enabled": False,
    }


def test_the_deployments_settings_take_the_place_of_a_shells_but_for_its_own_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prices.toml").touch()
    monkeypatch.chdir(tmp_path)
    there = of(**SMALL, llm_prices="prices.toml", rollups_enabled=True)
    monkeypatch.chdir("/")
    here = of(retention_days=3, session_memory_enabled=False, tenant="haus", openai_api_key="of-this-shell")
    seen = running(there).over(here)
    assert (seen.session_summary_model, seen.rollups_enabled) == ("small-1", True)
    # also what it leaves at the default
    assert (seen.retention_days, seen.session_memory_enabled, seen.tenant) == (None, True, "haus")
    assert seen.llm_prices == tmp_path / "prices.toml"
    # a file of another machine is not looked for here
    assert running(of(llm_prices=tmp_path / "elsewhere.toml")).over(here).llm_prices is None
    # the key is for the same server; with another server's URL it is not
    assert seen.openai_api_key == SecretStr("of-this-shell")
    elsewhere = running(of(**SMALL, openai_base_url="http://elsewhere.example.org/v1")).over(here)
    assert elsewhere.openai_api_key == KEPT
    # and where nothing that acts on data runs, a shell speaks for itself
    idle = Deployment([RunningProcess("metrics", "host", 1, there.stated())])
    assert idle.over(here) == here
    assert [note.split(":")[0] for note in idle.notes(here)] == [
        "No running HTTP API or worker says what it runs with"
    ]
    assert idle.sent(here, []) == ["Nothing would be sent to another machine"]


def test_processes_that_differ_are_named_with_both_values_and_so_is_this_shell() -> None:
    half = running(of(session_memory_enabled=False), of(), of())
    assert half.differing() == [
        "BACKSCROLL_SESSION_MEMORY_ENABLED is false in worker summarize and true in worker embed, worker sweep"
    ]
    # two of a kind that differ are told apart
    assert running(of(memory_user_max=9), of(), kinds="sweep sweep").differing() == [
        "BACKSCROLL_MEMORY_USER_MAX is 9 in worker sweep (host, 1) and 200 in worker sweep (host, 2)"
    ]
    # the one that began last has the value that was changed to
    assert half.switched_off("summarize") == "BACKSCROLL_SESSION_MEMORY_ENABLED"
    assert running(of(), of(session_memory_enabled=False)).switched_off("summarize") is None
    # a model counts that is named where it is asked alone, and an address may be kept from others
    some = running(of(), of(**SMALL, openai_base_url="http://elsewhere.example.org/v1"))
    assert some.stated["session_summary_model"] == "small-1"
    assert ["OPENAI" in sentence for sentence in some.differing()] == [False]
    (note,) = running(of(), of()).notes(of(hyde_model="m"))
    assert note == (
        "BACKSCROLL_HYDE_MODEL is unset in worker summarize, worker sweep and m in this shell, which does not count"
    )
    # a shell that leaves the model to what is stored does not differ
    assert running(of(embedding_provider="onnx")).notes(of()) == []
    # and nobody is told the chats of another tenant
    assert "test:1" not in " ".join(running(of(session_summary_canaries="test:1,test:2"), of()).differing())


SPACE = EmbeddingSpace(provider="openai", model="text-embedding-3-small", dimensions=1536)


@pytest.mark.parametrize(
    ("given", "spaces", "sent"),
    [
        ({}, [], []),
        (SMALL, [], ["small-1 summarizes", "small-1 learns"]),
        (SMALL | {"session_memory_enabled": False, "hyde_model": "m"}, [], []),
        (SMALL | {"session_summarization_enabled": False}, [], ["small-1 learns"]),
        (
            SMALL | {"memory_learning_enabled": False, "hyde_model": "m"},
            [],
            ["small-1 summarizes", "m makes up"],
        ),
        # whatever the settings name, the stored space is embedded into
        ({"openai_api_key": "k", "embedding_provider": "deterministic"}, [SPACE], ["3-small embeds"]),
    ],
)
def test_what_is_sent_is_what_the_running_processes_send(
    given: dict[str, Any], spaces: list[EmbeddingSpace], sent: list[str]
) -> None:
    sentences = running(of(**given)).sent(of(), spaces)
    if not sent:
        assert sentences == ["Nothing is sent to another machine"]
    else:
        assert [part in sentence for part, sentence in zip(sent, sentences, strict=True)] == [True] * len(
            sent
        )


def seen(database: Database) -> list[str]:
    with database.tenant(TENANT) as connection:
        return [process.kind for process in stats.running_processes(connection)]


def test_what_any_process_sends_is_sent_even_if_the_others_were_restarted_with_its_flag_off() -> None:
    off, on = of(**SMALL, session_memory_enabled=False), of(**SMALL)
    assert running(off).sent(of(), []) == ["Nothing is sent to another machine"]
    assert len(running(off, on).sent(of(), [])) == 2


def test_a_process_is_there_until_it_ends_or_is_silent_for_long(
    database: Database, settings: Settings
) -> None:
    claim_file.start_stating("worker embed", settings, database)
    claim_file.stop_stating()
    assert seen(database) == []
    for kind in ("api", "worker embed"):
        with database.tenant("") as connection:
            stats.state_process(connection, RunningProcess(kind, "host", 1, settings.stated()))
    assert sorted(seen(database)) == ["api", "worker embed"]
    with database.tenant("") as connection:
        # as if it had been killed a while ago
        connection.execute(text("UPDATE processes SET seen_at = now() - interval '1 min' WHERE kind = 'api'"))
    assert seen(database) == ["worker embed"]
