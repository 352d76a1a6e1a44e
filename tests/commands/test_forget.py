"""What an operator relies on when somebody asks to be forgotten."""

import io
import sys

import pytest

from tests.commands.conftest import CHAT, Run


@pytest.fixture
def database_name(house: str) -> str:
    """The sample chat, all of it in memory."""
    return house


def test_a_dry_run_says_how_much_and_forgets_nothing(run: Run) -> None:
    shown = run("forget", "chat", CHAT, "--dry-run", "--json").json
    assert shown["would_forget"] == {"messages": 418, "chats": 1, "memories": 0}
    assert "418 messages" in run("forget", "chat", CHAT, "--dry-run").out
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418


def test_nothing_is_forgotten_unasked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run("forget", "chat", CHAT, "--json")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert run("forget", "chat", CHAT).code == 1
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418


def test_forgetting_a_chat_gives_a_receipt_that_does_not_name_it(run: Run) -> None:
    receipt = run("forget", "chat", CHAT, "--yes", "--json").json
    assert receipt["finished_at"]
    assert (receipt["counts"]["messages"], receipt["counts"]["found_again_texts"]) == (418, 0)
    assert CHAT not in str(receipt)
    assert run("chats", "list", "--json").json["chats"] == []
    assert [r["id"] for r in run("forget", "receipts", "--json").json["receipts"]] == [receipt["id"]]
    assert "Receipt 2" in run("forget", "message", CHAT, "1041", "--yes").out
