"""What was said can be looked at: chats, sessions and their transcripts, on the chat's own clock."""

import pytest

from tests.commands.conftest import CHAT, Run

pytestmark = pytest.mark.usefixtures("house")


def test_chats_are_listed_on_their_own_clock(run: Run) -> None:
    listed = run("chats").out
    assert "Harbour House" in listed
    # 19:57 UTC, in summer
    assert "2026-04-14 20:57" in listed


def test_a_chat_is_shown_with_its_speakers_and_latest_sessions(run: Run) -> None:
    shown = run("chats", "show", CHAT)
    for expected in ("Europe/Lisbon", "418", "summarized", "Inês (88)", "Latest sessions"):
        assert expected in shown.out
    as_json = run("chats", "show", CHAT, "--json").json
    assert as_json["messages"] == 418
    assert sum(as_json["sessions"].values()) == run("chats", "list", "--json").json["chats"][0]["sessions"]


def test_sessions_are_listed_newest_first_and_filtered(run: Run) -> None:
    listed = run("sessions", "list", "--chat", CHAT, "--limit", 5, "--json").json["sessions"]
    assert len(listed) == 5
    assert listed == sorted(listed, key=lambda session: session["ended_at"], reverse=True)
    skipped = run("sessions", "list", "--status", "skipped", "--json").json["sessions"]
    assert skipped
    assert {session["status"] for session in skipped} == {"skipped"}
    assert run("sessions", "list", "--status", "tired").code == 2
    assert run("sessions", "list", "--chat", "telegram:nowhere").code == 3


def test_a_session_is_shown_with_summary_and_transcript(run: Run) -> None:
    shown = run("sessions", "show", 1).out
    for expected in ("Summary", "participants", "Transcript", "Europe/Lisbon", "extractive-v1"):
        assert expected in shown
    assert "18:04 Inês: is anyone else getting only cold water" in shown
    assert "Transcript" not in run("sessions", "show", 1, "--no-messages").out
    as_json = run("sessions", "show", 1, "--json").json
    assert as_json["message_count"] == len(as_json["messages"]) == 17
    assert as_json["summary_text"]
