"""What has expired goes when it is told to, and can be counted before."""

import pytest

from tests.commands.conftest import Run

pytestmark = pytest.mark.usefixtures("house")


def test_a_dry_run_counts_what_a_run_deletes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_RETENTION_MESSAGES_PER_CHAT", "100")
    shown = run("prune", "--dry-run")
    assert "messages beyond the newest 100 of a chat" in shown.out
    assert "would be deleted" in shown.out
    assert "318" in shown.out
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418
    by_rule = {rule["rule"]: rule["rows"] for rule in run("prune", "--json").json["rules"]}
    assert by_rule["messages_by_count"] == 318
    chat = run("chats", "list", "--json").json["chats"][0]
    assert chat["message_count"] == 100
    # what was said of them stays
    assert chat["summarized"] > 30


def test_pruned_transcripts_say_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_RETENTION_DAYS", "1")
    run("prune")
    assert "have been pruned" in run("sessions", "show", 1).out
