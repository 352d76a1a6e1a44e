"""What waits: how it is sent, what it keeps waiting, and what of it is set aside, looked at, sent again and dropped."""

import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from backscroll_client.__main__ import main
from backscroll_client.buffer import Lane
from backscroll_client.errors import NoAnswer

from tests.clients_python.doubles import BAD, HTML, ONE, TWO, Api, Clock, away, left, names, problem, said
from tests.waiting import ended


def test_a_flush_while_the_api_is_broken_gives_nothing_up(api: Api, path: Path) -> None:
    left(api, path, *20 * ["good"])
    api.ill[ONE] = lambda request, api: httpx.Response(500, text="<html>", headers=HTML)
    with api.client(path) as memory:
        assert memory.flush() is False
        # all of them, then the first of them alone
        assert api.requests == 2
    api.ill = {}
    with api.client(path) as memory:
        assert memory.flush() is True
    assert api.kept[ONE] == names(*range(20))


@pytest.mark.parametrize("bad", [0, 1, 249, 250, 498, 499])
def test_one_refused_message_of_500_is_found_by_halves(api: Api, path: Path, bad: int) -> None:
    left(api, path, *(BAD if number == bad else "good" for number in range(500)))
    with api.client(path) as memory:
        assert memory.flush() is True
        assert len(memory.set_aside()) == 1
    assert api.kept[ONE] == names(*(number for number in range(500) if number != bad))
    assert api.requests <= 20


@pytest.mark.parametrize("most", [1, 7, 100, 499])
def test_a_batch_is_made_smaller_until_it_fits(api: Api, path: Path, most: int) -> None:
    left(api, path, *100 * ["good"])
    api.most = most
    with api.client(path) as memory:
        assert memory.flush() is True
    assert api.kept[ONE] == names(*range(100))
    assert api.requests <= (1 if most >= 100 else 40 if most > 1 else 201)


@pytest.mark.parametrize("status", [409, 429, 503])
def test_what_is_put_off_keeps_only_its_own_chat_waiting(
    api: Api, path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a chat whose second message the API puts off for ever, and another one
    api.ill = {ONE: away, TWO: away}
    with api.client(path) as memory:
        for number, content in enumerate(("good", "later", "good")):
            assert memory.add(ONE, said(number, content)) is False
        assert memory.add(TWO, said(0)) is False

    def put_off(request: httpx.Request, api: Api) -> httpx.Response:
        is_it = b"later" in request.content
        return problem(status, "Later.", **{"Retry-After": "3600"}) if is_it else api.take(request)

    api.ill = {ONE: put_off}
    with api.client(path) as memory:
        assert memory.flush() is False
        assert "not all that waits could be sent" in caplog.text
        # Then what is before it is there, and what is behind it waits, as its order is kept
        assert api.kept == {ONE: names(0), TWO: names(0)}
        # and others go on, by every way, while nothing is asked again before it may be
        api.requests = 0
        assert memory.add(ONE, said(8)) is False
        assert memory.add(TWO, said(9)) is True
        assert memory.search(ONE, "?")["hits"] == []
        assert "an answer does not know all that was handed over before" in caplog.text
        assert api.requests == 2
        # until it is taken, or dropped
        assert memory.flush() is False
        assert "request 2 of" in caplog.text
        assert memory.drop(2) == 1
        assert memory.flush() is True
    assert api.kept == {ONE: names(0, 2, 8), TWO: names(0, 9)}


def test_events_keep_their_order_in_their_chat_and_no_other_chat_waiting(api: Api, path: Path) -> None:
    def update(number: int, chat: int) -> dict[str, Any]:
        return {"update_id": number, "message": {"chat": {"id": chat}}}

    api.ill[ONE] = lambda request, api: problem(503)
    with api.client(path) as memory:
        assert memory.event("telegram", json.dumps(update(1, 1))) is False
        assert memory.add(ONE, said(2)) is False
        assert memory.edit(ONE, "002", "better") is False
        assert memory.event("telegram", update(3, 2)) is True
        api.ill = {}
        assert memory.flush() is True
    assert api.kept == {ONE: ["event 1", "002", "PATCH 002"], TWO: ["event 3"]}


@pytest.mark.parametrize(
    ("platform", "payload"),
    [
        ("slack", {"event": {"type": "message", "channel": "1"}}),
        ("slack", {"event": {"type": "channel_created", "channel": {"id": "1"}}}),
        ("discord", {"t": "MESSAGE_CREATE", "d": {"channel_id": "1"}}),
        ("telegram", {"message_id": 3, "chat": {"id": "1"}, "reply_to_message": {"chat": {"id": "2"}}}),
    ],
)
def test_the_chat_of_an_event_is_told_from_what_its_platform_sends(
    platform: str, payload: dict[str, Any], api: Api, path: Path
) -> None:
    # Given an event that is put off
    api.ill[f"/v1/events/{platform}"] = lambda request, api: problem(503)
    with api.client(path) as memory:
        assert memory.event(platform, payload) is False
        # Then a message of its chat waits behind it, and none of another
        assert memory.add(f"{platform}:1", said(1)) is False
        assert memory.add(f"{platform}:2", said(2)) is True
        # and behind what is of several chats, or cannot be read, no message waits
        assert memory.event(platform, [payload, payload]) is False
        assert memory.event(platform, b"{") is False
        assert memory.add(f"{platform}:3", said(3)) is True
    assert api.kept == {f"{platform}:2": names(2), f"{platform}:3": names(3)}


@pytest.mark.parametrize(("patience", "seconds"), [(2, 2), (0, 1)])
def test_a_question_does_not_wait_for_what_waits_longer_than_its_patience(
    api: Api, path: Path, caplog: pytest.LogCaptureFixture, patience: float, seconds: float
) -> None:
    left(api, path, "good")
    timeouts = []

    def hangs(request: httpx.Request, api: Api) -> httpx.Response:
        timeouts.append([request.extensions["timeout"][part] for part in ("read", "connect")])
        raise httpx.ReadTimeout("late")

    api.ill[ONE] = hangs
    with api.client(path, patience=patience) as memory:
        assert memory.search(ONE, "?")["hits"] == []
        assert timeouts == [[seconds, seconds]]
        assert "an answer does not know all that was handed over before" in caplog.text
        # nor for it each time
        assert memory.search(ONE, "?")["hits"] == []
        assert len(timeouts) == 1
        # while a flush has time
        assert memory.flush() is False
        assert timeouts[1:] == [[60, 5]]


def test_a_question_does_not_wait_for_another_call_longer_than_its_patience(api: Api, path: Path) -> None:
    left(api, path, "good")
    began, answered = threading.Event(), threading.Event()

    def waits(request: httpx.Request, api: Api) -> httpx.Response:
        began.set()
        assert answered.wait(60)
        return api.take(request)

    api.ill[ONE] = waits
    with api.client(path) as memory:
        flushing = threading.Thread(target=memory.flush)
        flushing.start()
        assert began.wait(60)
        assert memory.search(ONE, "?")["hits"] == []
        answered.set()
        ended(flushing)
    assert api.kept[ONE] == names(0)

    async def story() -> None:
        began, answered = asyncio.Event(), asyncio.Event()

        class Slow(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                await request.aread()
                if request.url.path == "/v1/messages":
                    began.set()
                    await answered.wait()
                return api(request)

        api.ill = {}
        memory = api.async_client(path)
        memory._http._transport = Slow()
        async with memory:
            adding = asyncio.create_task(memory.add(ONE, said(1)))
            await began.wait()
            assert (await memory.search(ONE, "?"))["hits"] == []
            answered.set()
            assert await adding is True

    asyncio.run(story())
    assert api.kept[ONE] == names(0, 1)


def test_one_thread_sends_for_all(api: Api, path: Path) -> None:
    with api.client(path) as memory:

        def bot(number: int) -> None:
            for message in range(25):
                assert memory.add(f"telegram:{number % 3}", said(1000 * number + message)) is True

        threads = [threading.Thread(target=bot, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        ended(*threads)
        assert memory.waiting == 0
    assert sum(map(len, api.kept.values())) == 200


def test_what_was_set_aside_is_listed_sent_again_and_dropped(api: Api, path: Path) -> None:
    left(api, path, BAD, "good", BAD, BAD)
    with api.client(path) as memory:
        assert memory.flush() is True
        first, second, third = memory.set_aside()
        assert memory.drop(third.number) == 1
        assert memory.drop(third.number) == 0
        # one is sent again with what is behind it, and refused again
        assert memory.send_again(first.number) == memory.waiting == 1
        assert memory.flush() is True
        assert memory.set_aside() == [first, second]

    async def story() -> None:
        async with api.async_client(path) as memory:
            assert await memory.set_aside() == [first, second]
            # When the API takes such things now
            api.read = lambda request: (*Api.read(request)[:2], False)  # type: ignore[method-assign]
            assert await memory.send_again() == 2
            assert await memory.flush() is True
            assert await memory.set_aside() == []
            assert await memory.drop(first.number) == 0

    asyncio.run(story())
    assert api.kept[ONE] == names(1, 0, 2)
    with api.client() as memory:
        assert (memory.set_aside(), memory.send_again(), memory.drop(1), memory.flush()) == ([], 0, 0, True)


def test_the_command_line_looks_after_what_was_set_aside(
    api: Api, path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: object) -> tuple[int, str]:
        try:
            code = main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
        told = capsys.readouterr()
        return code, told.out + told.err

    left(api, path, BAD, "good", BAD)
    with api.client(path) as memory:
        memory.flush()
        # while a bot has the file it is that one which is to be asked
        code, told = run("list", path)
        assert code == 3
        assert "A client has it open: ask that one, or stop it" in told
    code, told = run("list", path)
    assert code == 0
    assert "1\ttelegram:1\tPOST /v1/messages\tmessages.0.content: it is bad" in told
    assert "2 set aside, 0 wait to be sent" in told
    code, told = run("list", path, "--json")
    listed = json.loads(told)
    assert listed["waiting"] == 0
    assert [
        json.loads(request["body"])["messages"][0]["external_id"] for request in listed["set_aside"]
    ] == names(0, 2)
    # what is sent needs the key, and an API that takes it
    monkeypatch.delenv("BACKSCROLL_API_KEY", raising=False)
    assert run("send", path)[0] == 1
    monkeypatch.setenv("BACKSCROLL_API_KEY", "key")
    monkeypatch.setenv("BACKSCROLL_URL", "http://127.0.0.1:9")
    code, told = run("send", path, 1)
    assert code == 1
    assert "1 set aside, 1 wait to be sent" in told
    assert run("drop", path, 1, 3)[0] == 0
    assert run("drop", path, 1)[0] == 1
    assert run("send", path)[0] == 0
    assert run("drop", path)[0] == 2
    code, told = run("list", path.with_name("none"))
    assert code == 3
    assert "there is no buffer" in told
    assert not path.with_name("none").exists()
    code, told = run("--help")
    assert code == 0
    assert "python -m backscroll_client drop bot.sqlite 12 13" in told
    assert "exit codes: 0 done" in told


def test_what_is_put_off_is_tried_again_after_a_rest_that_grows_or_as_the_api_says(
    api: Api, path: Path, clock: Clock
) -> None:
    api.ill[ONE] = lambda request, api: problem(503)

    def wait(step: float = 0.25) -> float:
        """Let time pass until something is asked again, and return how long that was."""
        before, asked = clock.now, api.requests
        while api.requests == asked:
            clock.now += step
            memory.add(TWO, said(int(clock.now * 4)))
            asked += 1
        return clock.now - before

    with api.client(path) as memory:
        memory.add(ONE, said(1))
        assert [wait() for _ in range(9)] == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]
        # as long as the API says, if that is longer, but not for days
        for told, rested in (("5", 30), ("120", 120), ("86400", 600), ("Fri, 01 Jan 2027 00:00:00 GMT", 30)):
            api.ill[ONE] = lambda request, api, told=told: problem(503, **{"Retry-After": told})  # type: ignore[misc]
            wait(10)
            assert wait(10) == rested
        # and when it is taken again, the next rest is short again
        api.ill = {}
        assert memory.flush() is True
        api.ill[ONE] = lambda request, api: problem(503)
        memory.add(ONE, said(2))
        assert wait() == 0.25


def test_what_times_out_together_is_tried_by_halves_and_then_more_of_it() -> None:
    lane = Lane()
    lane.numbers.extend(range(2000))
    sizes = []
    for _ in range(2):
        assert lane.failed(lane.size, NoAnswer("late"), 0.0) is False
        sizes.append(lane.size)
    for _ in range(4):
        lane.committed(lane.size)
        sizes.append(lane.size)
    assert sizes == [250, 125, 250, 500, 500, 500]


def test_an_outage_is_logged_once_and_asks_no_more_than_it_must(
    api: Api, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    chats = [f"telegram:{number}" for number in range(1, 9)]
    api.ill = dict.fromkeys(chats, lambda request, api: problem(503, "Down."))
    with api.client(path, patience=30) as memory:
        for number in range(3):
            for chat in chats:
                assert memory.add(chat, said(number)) is False
        # each rests
        assert api.requests == len(chats)
        assert caplog.text.count("Down.") == len(chats)
        api.requests = 0
        # what is asked first tries some of them
        memory.search(ONE, "?")
        assert api.requests == 2 * 3 + 1
        # a flush tries every chat
        api.requests = 0
        memory.flush()
        assert api.requests == 2 * len(chats)
        api.requests = 0
        api.ill = dict.fromkeys(chats, away)
        memory.flush()
        assert api.requests == 1
        api.ill = {}
        assert memory.flush() is True
