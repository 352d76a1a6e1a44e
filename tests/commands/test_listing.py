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


def test_a_session_is_shown_with_summary_and_transcript(run: Run) -> None:
    shown = run("sessions", "show", 1).out
    for expected in ("Summary", "participants", "Transcript", "Europe/Lisbon", "extractive-v1"):
        assert expected in shown
    assert "18:04 Inês: is anyone else getting only cold water" in shown
    assert "Transcript" not in run("sessions", "show", 1, "--no-messages").out
    as_json = run("sessions", "show", 1, "--json").json
    assert as_json["message_count"] == len(as_json["messages"]) == 17
    assert as_json["summary_text"]


def test_the_topics_of_a_chat_are_counted_by_week_and_by_month(run: Run) -> None:
    by_month = run("topics", CHAT, "--json").json
    by_week = run("topics", CHAT, "--by", "week", "--periods", 100, "--json").json
    for counted in (by_month, by_week):
        begins = [period["begins"] for period in counted["periods"]]
        assert begins == sorted(set(begins), reverse=True)
        for period in counted["periods"]:
            sessions = [topic["sessions"] for topic in period["topics"]]
            assert sessions == sorted(sessions, reverse=True)
            assert min(sessions) >= 1
            assert period["begins"] <= min(topic["first_at"] for topic in period["topics"])[:10]
    assert len(by_week["periods"]) > len(by_month["periods"]) > 1
    # 2026-03-02 was a Monday
    assert "2026-03-02" in {period["begins"] for period in by_week["periods"]}
    shown = run("topics", CHAT, "--periods", 1, "--limit", 2).out
    assert by_month["periods"][0]["topics"][0]["topic"] in shown
    assert run("topics", "telegram:nowhere").code == 3
    assert run("topics", CHAT, "--by", "year").code == 2
