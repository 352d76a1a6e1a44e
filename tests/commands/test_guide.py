"""Every command of README and guide does what its page says, on the sample chat, with ids that are there."""

import io
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from pipeline.ingest.accept import accept
from pipeline.operations import spaces as operations
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.commands.conftest import CHAT, NEW, OLD, Run, Workers
from tests.conftest import CHECKOUT, TENANT, message
from tests.guide.pages import PAGES, Page
from tests.guide.pages import page as page_named
from tests.harness.doctor import may_mend
from tests.harness.jobs import kill
from tests.harness.owner import owner_of

pytestmark = pytest.mark.usefixtures("house")

# How commands begin that are not run here, and the story that runs them; empty: they change the machine that runs them.
ELSEWHERE = {
    "./ops/run": "ops/test_scripts.py",
    "./ops/test": "ops/test_scripts.py",
    ".venv/bin/pytest": "",
    "source": "",
    "pip install": "",
    "claude mcp": "",
    "docker compose": "deployment/test_compose.py",
    "docker build": "",
    "docker run": "",
    "npm": "clients_typescript/test_stories.py",
    "openclaw": "",
    "hermes": "clients_python/test_hermes.py",
    "mkdir": "",
    "cp -r backscroll": "",
    "printf": "",
    "cp .env.example": "deployment/test_compose.py",
    "chmod": "deployment/test_compose.py",
    "while grep": "deployment/test_compose.py",
    "export": "",
    "umask": "",
    "echo": "",
    "pdftotext": "",
    "backscroll up": "ops/test_up.py",
    "backscroll db upgrade --partitions": "store/test_partitioning.py",
    "BACKSCROLL_DATABASE_READ_URL": "deployment/test_replica.py",
    "BACKSCROLL_DATABASE_URL": "deployment/test_failover.py",
    "BACKSCROLL_REDIS_URL": "deployment/test_failover.py",
    "BACKSCROLL_EMBEDDING_PROVIDER": "ops/test_up.py",
    "backscroll db roles": "deployment/test_processes.py",
    "backscroll worker": "deployment/test_processes.py",
    "backscroll beat": "deployment/test_processes.py",
    "backscroll api": "deployment/test_processes.py",
    "backscroll model export": "commands/test_model.py",
    "backscroll backup": "ops/test_backup.py",
    "backscroll restore": "ops/test_backup.py",
}
# What a command of which more is to be said may end with.
CODES = {
    # nothing runs but the HTTP API
    "backscroll doctor": {0, 5, 6},
    # nobody is named Lena in the sample
    "backscroll entities show": {3},
    # its host is named to nobody here; operations/test_digests.py
    "backscroll digests add": {2},
    # no task lies there; commands/test_unread.py
    "backscroll jobs move": {3},
}


def begins(words: list[str], beginnings: Iterable[str]) -> str | None:
    """The beginning of these that the command has."""
    line = shlex.join(words).replace("'", "")
    return next((each for each in beginnings if line.startswith(each)), None)


def runs_here(words: list[str]) -> bool:
    return bool(words) and begins(words, ELSEWHERE) is None


def test_what_is_run_elsewhere_is_in_the_guide_and_has_its_story() -> None:
    told = [words for page in PAGES for words in page.shell() if words]
    assert {begins(words, ELSEWHERE) for words in told} - {None} == set(ELSEWHERE)
    assert all((CHECKOUT / "tests" / story).is_file() for story in ELSEWHERE.values() if story)
    others = {words[0] for words in filter(runs_here, told)}
    assert others == {"backscroll", "curl"}


@pytest.fixture
def adapted(
    page: Page,
    run: Run,
    running: httpx.Client,
    database: Database,
    settings: Settings,
    workers: Workers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[list[str]], list[str]]:
    """Puts ids, files and spaces that are there in the place of a page's."""
    may_mend(settings, monkeypatch)
    if page == page_named("operating"):
        with owner_of(settings) as owner:
            operations.add(owner, database, [TENANT], NEW)
    for chat in ("telegram:-4711", "whatsapp:bc", "whatsapp:bookclub"):
        people = ["whatsapp:Ana@Trip", "whatsapp:Ana@Work", "whatsapp:491701234567"]
        said = [
            message(n, f"о котле, {chat}, {n}").model_copy(
                update={"external_id": f"{chat}{n}", "sender_id": people[n % 3]}
            )
            for n in range(3)
        ]
        accept(database, TENANT, ChatIn(chat_id=chat), said)
    workers.finish()
    if page == page_named("operating"):
        assert run("backfills", "start", "embed").code == 0
        workers.finish()
    accept(database, TENANT, ChatIn(chat_id="test:dead"), [message(n, f"noise {n}") for n in range(6)])
    workers.finish("ingest")
    kill(database, "summarize")

    monkeypatch.chdir(tmp_path)
    Path("handbook.md").write_text("# Haus\n\nDer Schlüssel hängt am Haken.\n")
    Path("result.json").write_text(
        '{"type": "chat", "chat_id": "app:jardin"}\n'
        '{"sender_id": "app:7", "content": "¿Rosas?", "sent_at": "2026-05-01T09:00:00Z"}\n'
    )
    Path("WhatsApp Chat with Harbour House.zip").write_text("31/3/26, 18:02 - Inês: há água\n")
    context = run("context", "boiler", "--chat", CHAT, "--user", "telegram:12", "--json").json
    (dead,) = run("jobs", "list", "--json").json["jobs"]
    hits = run("search", "boiler", "--chat", CHAT, "--json").json["hits"]
    items = [item for block in context["blocks"] for item in block["items"] if item["kind"] == "message"]
    known = {
        "ctx_1f2e": context["context_id"],
        "message:250": f"message:{items[0]['id']}",
        "session:42": dead["key"],
        "30": str(hits[0]["session_id"]),
        "240": str(hits[0]["id"]),
        "241": str(hits[0]["id"]),
        "onnx/multilingual-e5-small": NEW.name,
        "onnx/all-MiniLM-L6-v2": OLD.name,
    }

    def place(words: list[str]) -> list[str]:
        if {"ID", "0199b2c4-6a7e-7c31-9d54-1f2e3a4b5c6d"} & {*words}:
            body = {"scope": "user", "user_id": "telegram:11", "content": f"Gosta de chá {len(words)}."}
            identity = running.post("/v1/memories", json=body).json()["id"]
            return [identity if word == "ID" or word.startswith("0199b2c4") else word for word in words]
        return [known.get(word, word) for word in words]

    return place


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(runs_here, page.shell()))], ids=str)
def test_every_command_of_a_page_does_what_it_says(
    page: Page,
    run: Run,
    running: httpx.Client,
    workers: Workers,
    adapted: Callable[[list[str]], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for words in filter(runs_here, page.shell()):
        if words[0] == "curl":
            answer = running.post(re.sub(r"^http://[^/]+", "", words[2]), json=json.loads(words[-1]))
            assert answer.is_success, (words, answer.text)
            continue
        # what a pipe brings, or what the operator says
        text = "A renda vence no dia 3.\n" if "-" in words else "y\n"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        with workers.busy() if "--wait" in words else nullcontext():
            done = run(*adapted(words[1:]))
        assert done.code in CODES.get(str(begins(words, CODES)), {0}), (words, done.out, done.err)
