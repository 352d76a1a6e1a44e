"""The command line with `--tenant` of the hostile one: every command that takes it, with ids of another and SQL."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from ops import cli
from ops.commands.data.forgotten_files import write_forgotten
from schemas.settings import Settings
from tests.commands.conftest import Run, run
from tests.hostile.arguments import guessed
from tests.hostile.caller import SQL, Caller, Theme
from tests.hostile.conftest import Stage
from tests.hostile.victims import MALLORY, SECRET, SHARED_CHAT

__all__ = ["run"]

THEMES = (Theme("ids of others"), *(Theme(f"the text {text!r}", text=text) for text in (*SQL[:5], "-1", "")))

Line = Callable[[Caller], list[Any]]

# What a command is called with; each is walked with `--tenant mallory`, as an operator of that tenant would.
LINES: dict[str, list[Line]] = {
    "import": [lambda a: [_history(a), "--chat", a.chat_id, "--format", "jsonl"]],
    "context": [
        lambda a: [
            a.text or "?",
            "--chat",
            SHARED_CHAT,
            "--user",
            a.name("messages", "sender_id"),
            "--explain",
        ],
        lambda a: [
            "lighthouse",
            "--chat",
            a.chat_id,
            "--session-key",
            a.name("session_closes", "session_key"),
        ],
    ],
    "search": [
        lambda a: ["lighthouse", "--chat", SHARED_CHAT, "--sender", a.name("messages", "sender_id")],
        lambda a: ["lighthouse", "--chat", SHARED_CHAT, "--session", a.id("conversation_sessions")],
        lambda a: [a.text or "?", "--chat", SHARED_CHAT, "--mode", "exact", "--json"],
        lambda a: [a.text or "?", "--chat", a.chat_id, "--mode", "topic"],
    ],
    "more": [
        lambda a: [a.id("conversation_sessions"), "--chat", SHARED_CHAT],
        lambda a: [a.id("conversation_sessions"), "--chat", a.chat_id],
    ],
    "chats list": [lambda _: []],
    "chats show": [lambda a: ["--", a.chat_id]],
    "chats remove": [lambda a: ["--yes", "--", a.chat_id]],
    "chats rename": [lambda a: ["--yes", "--", a.chat_id, a.name("messages", "sender_id")]],
    "chats merge": [lambda a: ["--yes", "--", a.chat_id, a.name("chats", "chat_id")]],
    "chats memory": [lambda a: ["--", a.chat_id, "off"]],
    "chats language": [
        lambda a: ["--", a.chat_id, "german"],
        lambda a: ["--", a.chat_id, "auto"],
        lambda a: ["--", a.chat_id, a.text],
    ],
    "sessions list": [lambda a: ["--chat", a.chat_id], lambda _: []],
    "sessions show": [lambda a: [a.id("conversation_sessions"), "--messages"]],
    "documents add": [lambda a: [_history(a), "--id", a.name("memories", "document_id")]],
    "documents list": [
        lambda a: ["--after", a.text],
        lambda a: ["--user", a.name("messages", "sender_id")],
        lambda _: [],
    ],
    "documents show": [lambda a: ["--", a.name("memories", "document_id")]],
    "documents remove": [lambda a: ["--", a.name("memories", "document_id")]],
    "memories add": [
        lambda a: ["--user", a.name("messages", "sender_id"), "--chat", a.chat_id, "--", a.text],
        lambda a: ["--session", a.id("conversation_sessions"), "--", a.text or "?"],
    ],
    "memories list": [
        lambda a: ["--user", a.name("messages", "sender_id"), "--chat", SHARED_CHAT],
        lambda a: ["--after", a.text],
        lambda _: ["--json"],
    ],
    "memories search": [
        lambda a: ["--user", a.name("messages", "sender_id"), "--chat", SHARED_CHAT, "--", a.text or "?"],
        lambda a: ["lighthouse", "--source", a.text, "--metadata", f"note={a.text}", "--json"],
    ],
    "memories edit": [lambda a: ["--", a.known.one("memories", "id"), a.text or "?"]],
    "memories promote": [lambda a: ["--", a.known.one("memories", "id")]],
    "memories correct": [
        lambda a: ["--", a.known.one("memories", "id"), a.text or "?"],
        lambda a: ["--", a.known.one("memories", "id")],
    ],
    "memories rm": [lambda a: ["--", a.known.one("memories", "id")], lambda a: ["--", a.text]],
    "entities list": [lambda a: ["--chat", a.chat_id], lambda _: ["--json"]],
    "entities show": [
        lambda a: ["--", a.name("messages", "sender_id")],
        lambda a: ["--chat", SHARED_CHAT, "--", a.text],
    ],
    "topics": [lambda a: ["--by", "week", "--", a.chat_id]],
    "status": [lambda _: ["--json"]],
    "backfills start": [
        lambda a: ["embed", "--chat", a.chat_id],
        lambda _: ["sessionize"],
        lambda _: ["answers"],
    ],
    "backfills list": [lambda _: ["--json"]],
    "backfills status": [lambda a: [a.id("backfills")]],
    "backfills pause": [lambda a: [a.id("backfills")]],
    "backfills resume": [lambda a: [a.id("backfills")]],
    "backfills cancel": [lambda a: [a.id("backfills")]],
    "spaces list": [lambda _: ["--json"]],
    "spaces add": [lambda a: ["--", a.text]],
    "spaces compare": [lambda a: ["--", a.text]],
    "spaces activate": [lambda a: ["--", a.text]],
    "spaces rollback": [lambda _: []],
    "spaces retire": [lambda a: ["--yes", "--", a.text]],
    "jobs list": [lambda a: ["--error", a.text], lambda _: ["--state", "pending", "--json"]],
    "jobs show": [lambda a: ["--", a.name("jobs", "kind"), a.name("jobs", "key")]],
    "jobs replay": [
        lambda a: ["--yes", "--", a.name("jobs", "kind"), a.name("jobs", "key")],
        lambda _: ["--all", "--yes", "--state", "pending"],
    ],
    "jobs drop": [
        lambda a: ["--yes", "--", a.name("jobs", "kind"), a.name("jobs", "key")],
        lambda _: ["--all", "--yes", "--state", "pending"],
    ],
    "doctor": [lambda _: ["--fix", "--json"]],
    "prune": [lambda _: []],
    "queries list": [lambda a: ["--chat", a.chat_id], lambda _: ["--json"]],
    "queries answer": [lambda a: ["--remember", "--", a.name("query_log", "context_id"), a.text or "?"]],
    "export user": [lambda a: ["--", a.name("messages", "sender_id")]],
    "remember user": [lambda a: ["--", a.name("messages", "sender_id"), "off"]],
    "users tell-apart": [lambda _: ["--yes"], lambda _: ["--dry-run"]],
    "users link": [lambda a: ["--", "test:m", a.name("users", "user_id")]],
    "users show": [
        lambda a: ["--", a.name("users", "user_id")],
        lambda a: ["--chat", SHARED_CHAT, "--", a.name("messages", "sender_id")],
    ],
    "users list": [lambda a: ["--after", a.text]],
    "users merge": [lambda a: ["--", a.name("users", "user_id"), "test:m"]],
    "users unlink": [lambda a: ["--", a.name("messages", "sender_id")]],
    "chats members": [lambda a: ["--set", a.name("messages", "sender_id"), "--", a.chat_id]],
    "tenant audience": [lambda _: ["tenant"], lambda _: []],
    "cost": [lambda _: ["--json"], lambda _: ["--by", "tenant"]],
    "forget receipts": [lambda _: ["--json"]],
    "forget export": [lambda a: ["--json", "--", a.stage.settings.data_dir / "forgotten.jsonl"]],
    "forget again": [lambda a: ["--", _forgotten(a)]],
    "forget message": [lambda a: ["--yes", "--", a.chat_id, a.name("messages", "external_id")]],
    "forget user": [lambda a: ["--yes", "--", a.name("messages", "sender_id")]],
    "forget chat": [lambda a: ["--yes", "--", a.chat_id]],
    "forget tenant": [lambda _: ["--confirm", MALLORY]],
}


def _history(a: Caller) -> Path:
    path = a.stage.settings.data_dir / "history.jsonl"
    told = {"sender_id": "test:m", "content": a.text, "sent_at": "2026-03-02T18:30:00Z"}
    path.write_text(json.dumps(told) + "\n")
    return path


def _forgotten(a: Caller) -> Path:
    path = a.stage.settings.data_dir / "guessed.jsonl"
    write_forgotten(path, guessed(a))
    return path


def commands() -> Iterator[str]:
    """All that take a tenant."""

    def walk(command: Any, path: list[str]) -> Iterator[str]:
        if hasattr(command, "list_commands"):
            for name in command.list_commands(None):
                yield from walk(command.get_command(None, name), [*path, name])
        elif any(parameter.name == "tenant" for parameter in command.params):
            yield " ".join(path)

    yield from walk(typer.main.get_command(cli.app), [])


@pytest.fixture
def settings(stage: Stage) -> Settings:
    """What the command line finds in its environment."""
    return stage.settings


@pytest.mark.no_cover  # some thousand commands, each of which its own stories cover
def test_no_command_tells_or_changes_what_is_another_tenant_s(stage: Stage, run: Run) -> None:
    known = set(commands())
    assert known - LINES.keys() == set(), "say what a hostile line of these commands is, in LINES"
    for command in LINES:
        for line in LINES[command]:
            told = set()
            for theme in THEMES:
                given = [str(each) for each in line(Caller(stage, theme))]
                if tuple(given) in told:
                    # a line without texts is the same under every theme
                    continue
                told.add(tuple(given))
                result = run(*command.split(), "--tenant", MALLORY, *given)
                what = f"{command} {given} ended with {result.code}: {result.err}"
                assert SECRET not in result.out + result.err, what
                assert "Traceback" not in result.err, what
                assert result.code in range(7), what
        stage.unharmed(command)
