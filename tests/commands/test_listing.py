"""What was said can be looked at: chats, sessions and their transcripts, on the chat's own clock."""

import pytest

from tests.commands.conftest import CHAT, Run

pytestmark = pytest.mark.usefixtures("house")


def test_chats_sessions_and_transcripts_are_shown_on_the_chats_own_clock(run: Run) -> None:
    # 19:57 UTC, in summer
    assert "2026-04-14 20:57" in run("chats").out
    chat = run("chats", "show", CHAT).out
    for expected in ("Europe/Lisbon", "418", "Inês (88)", "Latest sessions"):
        assert expected in chat
    session = run("sessions", "show", 1).out
    for expected in (
        "Summary",
        "Transcript",
        "extractive-v1",
        "18:04 Inês: is anyone else getting only cold",
    ):
        assert expected in session
    assert "Transcript" not in run("sessions", "show", 1, "--no-messages").out
    as_json = run("sessions", "show", 1, "--json").json
    assert as_json["message_count"] == len(as_json["messages"]) == 17


def test_the_topics_of_a_chat_are_counted_by_week_and_by_month(run: Run) -> None:
    by_month = run("topics", CHAT, "--json").json
    by_week = run("topics", CHAT, "--by", "week", "--periods", 100, "--json").json
    for counted in (by_month, by_week):
        begins = [period["begins"] for period in counted["periods"]]
        assert begins == sorted(set(begins), reverse=True)
        for period in counted["periods"]:
            assert period["begins"] <= min(topic["first_at"] for topic in period["topics"])[:10]
    assert len(by_week["periods"]) > len(by_month["periods"]) > 1
    # 2026-03-02 was a Monday
    assert "2026-03-02" in {period["begins"] for period in by_week["periods"]}
    shown = run("topics", CHAT, "--periods", 1, "--limit", 2).out
    assert by_month["periods"][0]["topics"][0]["topic"] in shown
