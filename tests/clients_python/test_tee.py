"""A bot hands over whatever its platform sends, and goes on whatever becomes of it."""

import asyncio
import logging
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from backscroll_client import AsyncBackscroll, Backscroll, Refused
from slack_bolt import App, BoltRequest
from slack_bolt.authorization import AuthorizeResult

from tests.clients_python.doubles import Api, problem

FORM = {"Content-Type": ["application/x-www-form-urlencoded"]}
COMMAND = {
    "command": "/kaffee",
    "text": "für 王芳",
    "user_id": "U13",
    "channel_id": "C042",
    "trigger_id": "13.37",
    "response_url": "https://hooks.slack.com/commands/1",
}
VIEW = {"id": "V1", "callback_id": "form", "state": {"values": {}}}
INTERACTIONS: list[dict[str, Any]] = [
    COMMAND,
    {"type": "block_actions", "user": {"id": "U13"}, "trigger_id": "1", "actions": [{"action_id": "ja"}]},
    {"type": "view_submission", "user": {"id": "U13"}, "view": VIEW},
    {"type": "view_closed", "user": {"id": "U13"}, "view": VIEW, "is_cleared": True},
    {"type": "shortcut", "user": {"id": "U13"}, "callback_id": "hilfe", "trigger_id": "2"},
    {
        "type": "message_action",
        "user": {"id": "U13"},
        "message": {"ts": "1.2", "text": "x"},
        "trigger_id": "3",
    },
    {"type": "block_suggestion", "user": {"id": "U13"}, "action_id": "stadt", "value": "京"},
]


def mention(kind: str, ts: str, text: str) -> dict[str, Any]:
    event = {"type": kind, "user": "U13", "text": text, "ts": ts, "channel": "C077", "event_ts": ts}
    return {"type": "event_callback", "team_id": "T1", "event_id": f"{kind}{ts}", "event": event}


def bot_of(memory: Backscroll) -> App:
    bot = App(
        token_verification_enabled=False,
        request_verification_enabled=False,
        url_verification_enabled=False,
        authorize=lambda **_: AuthorizeResult(enterprise_id=None, team_id="T1", bot_token="xoxb-1"),
        process_before_response=True,
    )

    @bot.middleware
    def tee(body: dict[str, Any], next: Any) -> None:  # noqa: A002
        memory.tee("slack", body)
        next()

    @bot.command("/kaffee")
    def kaffee(ack: Any, command: dict[str, Any]) -> None:
        ack(f"☕ {command['text']}")

    return bot


def test_what_is_no_event_of_slack_is_counted_and_nothing_else(memory: Backscroll) -> None:
    for payload in INTERACTIONS:
        assert memory.event("slack", payload), payload


def test_a_bot_that_is_told_of_mentions_only_remembers_them_once(memory: Backscroll) -> None:
    said = {
        "1777300001.000100": "<@U99> когда привезут котёл?",
        "1777300002.000100": "<@U99> ボイラーはいつ？",
    }
    for ts, text in said.items():
        memory.tee("slack", mention("app_mention", ts, text))
    for ts, text in said.items():
        memory.tee("slack", mention("message", ts, text))
        memory.tee("slack", mention("app_mention", ts, text))
    heard = memory.latest("slack:C077")
    assert [message["external_id"] for message in heard] == [*said]
    assert all(message["role"] == "user" for message in heard)


@pytest.mark.parametrize("status", [401, 403, 422, 429, 500, 503])
def test_a_command_is_answered_whatever_becomes_of_memory(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    # Given an API that refuses all, or is away, and a bot of Bolt's with a tee before its commands
    api = Api()
    api.ill["/v1/events/slack"] = lambda request, api: problem(status)
    with api.client(None, patience=0) as memory, caplog.at_level(logging.ERROR, "backscroll_client"):
        # When somebody gives a command
        answer = bot_of(memory).dispatch(BoltRequest(body=urlencode(COMMAND), headers=FORM))
    # Then it is done, and the log says what is not remembered
    assert (answer.status, answer.body) == (200, "☕ für 王芳")
    assert [record.name for record in caplog.records] == ["backscroll_client"]


@pytest.mark.parametrize("payload", [{"update_id": object()}, "{", b"\xff", None, 7])
def test_what_no_api_could_take_stops_no_bot(memory: Backscroll, payload: Any) -> None:
    assert memory.tee("telegram", payload) is False
    assert memory.tee("kein/../platform", payload) is False

    async def story() -> None:
        async with AsyncBackscroll() as client:
            assert await client.tee("telegram", payload) is False

    asyncio.run(story())


def test_what_was_said_in_the_evening_is_shown_on_that_day(memory: Backscroll, api: httpx.Client) -> None:
    # Given a message of half past ten in the evening in Bogotá, where it is tomorrow in UTC
    data = {
        "external_id": "1",
        "sender_id": "app:eva",
        "content": "¿Quién cierra?",
        "sent_at": "2026-03-02T22:30-05:00",
    }
    for chat, zone in (
        ("app:1", "America/Bogota"),
        ({"chat_id": "app:2", "time_zone": "Asia/Tokyo"}, "Europe/Paris"),
    ):
        created = {"type": "message.created", "data": {"chat": chat, "messages": [data]}}
        assert memory.tee("standard", created, time_zone=zone)
    # Then the chat's clock is the one that the bot, or the payload itself, has named
    assert api.get("/v1/chats/app:1").json()["time_zone"] == "America/Bogota"
    assert api.get("/v1/chats/app:2").json()["time_zone"] == "Asia/Tokyo"
    text = memory.context("app:1", "¿Y mañana?").text
    assert "22:30" in text, text
    # and the bot names itself, where its platform does not
    said = {"message_id": 1, "date": 1_790_000_000, "from": {"id": 7}, "text": "¿Y el lunes?"}
    chat = {"id": 7, "type": "private"}
    assert memory.tee("telegram", {"update_id": 1, "message": {**said, "chat": chat}}, account="tienda")
    assert api.get("/v1/chats/telegram:7@tienda").status_code == 200
    with pytest.raises(Refused, match="time_zone"):
        memory.event("standard", created, time_zone="Mars/Olympus")
