"""The command line in this process, on this test's database, and workers that run when they are told to."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from ops import cli
from ops.local.processes import environment
from ops.source import open_source
from pipeline.clients.by_space import SpaceEmbedders
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.enrich.summaries import summarize
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.enrich.summaries.summary_policy import SummaryPolicy
from pipeline.ingest import accept, history, languages, place
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.platforms.records import ImportOptions
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.api.conftest import served
from tests.conftest import CHECKOUT, MIGRATED, POLICY, TENANT, Templates, message
from tests.harness.pipeline import learns
from tests.waiting import ended, rounds
from workers import broker

SAMPLE = CHECKOUT / "ops/local/samples/harbour_house.jsonl"
CHAT = "telegram:-100420"


@dataclass(frozen=True)
class Result:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON object that it is."""
        assert self.code == 0, self.err
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture
def run(settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("chats", "--json")`: the command as a shell would start it, in the environment of `settings`."""
    for name, value in environment(settings).items():
        if name.startswith("BACKSCROLL_"):
            monkeypatch.setenv(name, value)
    # where no worker runs there is no answer to wait for
    monkeypatch.setattr(broker, "ANSWER_SECONDS", (0.05,))

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["backscroll", *map(str, arguments)])
        capsys.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


class Workers:
    """Does what is owed, as the worker processes would."""

    def __init__(
        self, database: Database, settings: Settings, embedders: SpaceEmbedders | None = None
    ) -> None:
        self._database = database
        rules = SessionPolicy.of(settings)
        self.current = Current.of(settings)
        summaries = SummaryPolicy(
            min_messages=settings.session_min_messages, version=settings.session_summary_version
        )
        hashing = SpaceEmbedders(lambda space: DeterministicEmbedder(dimensions=space.dimensions))
        self.handlers = {
            "ingest": place.placer(database, rules),
            "summarize": summarize.summarizer(database, ExtractiveSummarizer(), summaries),
            "extract": learns(database),
            "embed": embed.embedder(database, embedders or hashing),
            "backfill": backfill.backfiller(database, self.current),
            "language": languages.labeller(database, rules),
        }

    def step(self, *kinds: str, policy: Policy = POLICY) -> int:
        """Do a batch of each kind, or of some; how many rows were claimed."""
        return sum(
            runner.run(self._database, kind, self.handlers[kind], policy).claimed
            for kind in kinds or self.handlers
        )

    def finish(self, *kinds: str, policy: Policy = POLICY) -> None:
        """Work until nothing is due, of some kinds or of all."""
        for _ in rounds("all work is done"):
            if not self.step(*kinds, policy=policy):
                break

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Work beside what the block does."""
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                if not self.step():
                    stop.wait(0.05)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            ended(thread)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """An import is over as soon as its last message is in; no model is loaded."""
    return settings.model_copy(update={"settle_seconds": 0.0, "embedding_provider": "deterministic"})


@pytest.fixture
def workers(database: Database, settings: Settings) -> Workers:
    """Idle until they are told to work."""
    return Workers(database, settings)


@pytest.fixture(scope="session")
def house_template(templates: Templates) -> str:
    """A database that holds the sample chat, all of it in memory; made once, to be copied."""

    def fill(database: Database) -> None:
        rules = SessionPolicy.of(Settings(_env_file=None))
        with open_source(SAMPLE, ImportOptions()) as source:
            for _ in history.store(database, TENANT, source.records(), rules, settle=timedelta()):
                pass
        Workers(database, Settings(_env_file=None, summarize_debounce_seconds=0.0)).finish()

    return templates("house", fill)


@pytest.fixture
def house() -> None:
    """Stories that use this begin with the sample chat, all of it in memory."""


@pytest.fixture
def template(request: pytest.FixtureRequest) -> str:
    """What a story begins with."""
    return str(request.getfixturevalue("house_template")) if "house" in request.fixturenames else MIGRATED


@pytest.fixture
def running(settings: Settings, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """The HTTP API on this test's database, whose address the commands know."""
    with served(settings) as client:
        monkeypatch.setenv("BACKSCROLL_URL", str(client.base_url).rstrip("/"))
        yield client


@pytest.fixture
def whatsapp(tmp_path: Path) -> Callable[..., Path]:
    """Writes a WhatsApp export of these lines and returns its path."""

    def write(*lines: str) -> Path:
        path = tmp_path / "WhatsApp Chat with Harbour House.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


def talk(database: Database, chat_id: str = "test:1", count: int = 6, tenant: str = TENANT) -> None:
    given = [message(n, f"the boiler makes noise number {n}") for n in range(count)]
    accept.accept(database, tenant, ChatIn(chat_id=chat_id), given, trace_id="request-1")


Write = Callable[..., Path]


def lines(*minutes: int) -> list[str]:
    return [f"13/01/24, 10:{minute:02d} - Ana: message of {minute}" for minute in minutes]


OLD, NEW = (DeterministicEmbedder(dimensions=size).space for size in (256, 384))
