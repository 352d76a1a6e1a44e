"""Whatever the API answers, whenever the bot is killed, however full its disk is: in the end all is there, once."""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from backscroll_client import Backscroll, BufferUnusable, KeyRefused, Refused, SetAside, buffer
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    rule,
    run_state_machine_as_test,
)

from tests.clients_python.doubles import BAD, HTML, PROBLEM, Api, Clock, Disk, Fault, Killed, problem

CHATS = ("telegram:1", "telegram:2", "telegram:3", "telegram:4", "telegram:5")
BODIES: tuple[dict[str, Any], ...] = (
    {"content": b""},
    {"text": "<html>Please log in</html>", "headers": HTML},
    {"content": b'{"accepted": 1', "headers": {"Content-Type": "application/json"}},
    {"content": b"[" * 100_000},
    {"json": {"accepted": True, "outcome": 1, "hits": None}},
    {"json": [1]},
    {"json": "accepted"},
    {"json": {"type": "about:blank", "detail": "No."}, "headers": PROBLEM},
    {"json": {"type": ["urn:backscroll:problem:x"], "detail": 1}, "headers": PROBLEM},
    {"json": {"type": "urn:backscroll:problem:x", "detail": "No."}},
)
ERRORS = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.ReadTimeout,
    httpx.WriteTimeout,
    httpx.PoolTimeout,
    httpx.ReadError,
    httpx.WriteError,
    httpx.CloseError,
    httpx.RemoteProtocolError,
    httpx.LocalProtocolError,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.DecodingError,
    httpx.TooManyRedirects,
    httpx.InvalidURL,
    Killed,
)


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    """What becomes of a request instead of the API's answer, before it has done what was asked or after."""
    is_done = draw(st.booleans())
    error = draw(st.none() | st.sampled_from(ERRORS))
    headers = draw(
        st.sampled_from([{}, {"Retry-After": "0"}, {"Retry-After": "86400"}, {"Retry-After": "Fri"}])
    )
    status = draw(st.sampled_from([*range(200, 209), 302, *range(400, 432), 451, *range(500, 512), 520, 530]))
    body = draw(st.sampled_from(BODIES))
    own = draw(st.none() | st.sampled_from([401, 403, 408, 409, 429, 500, 503]))

    def fault(request: httpx.Request, api: Api) -> httpx.Response:
        # what is refused for good, or told of the key, is not done
        if is_done and not api.read(request)[2]:
            api.take(request)
        if error is not None:
            raise error("broken off")
        if own is not None:
            return problem(own, **{"Retry-After": "1"} | headers)
        return httpx.Response(status, **body | {"headers": {**body.get("headers", {}), **headers}})

    return fault


class Bots(RuleBasedStateMachine):
    """One bot after another, with the same buffer."""

    clock: Clock

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.api, self.number = Api(), 0
        # by chat: what must be there in the end, what may be; what must be set aside, and what may be
        self.there: dict[str, set[str]] = {chat: set() for chat in CHATS}
        self.maybe: dict[str, set[str]] = {chat: set() for chat in CHATS}
        self.aside: set[str] = set()
        self.maybe_aside: set[str] = set()
        Disk.is_full, Disk.lives = False, None
        self.memory = self.start()

    def start(self) -> Backscroll:
        return self.api.client(self.folder / "buffer")

    def teardown(self) -> None:
        try:
            self.end()
        finally:
            Disk.is_full, Disk.lives = False, None
            self.memory.close()
            shutil.rmtree(self.folder)

    def hand_over(self, chat: str, names: dict[str, bool], act: Callable[[], bool]) -> None:
        """Let the bot hand changes over, of which some are bad, and note what must become of them."""
        good = {name for name, is_bad in names.items() if not is_bad}
        try:
            is_committed = act()
        except Refused:
            # each that is bad is told of, or waits
            assert good != names.keys()
            # what cannot be written down is taken as one, or not
            (self.maybe if Disk.is_full else self.there)[chat] |= good
            self.maybe_aside |= names.keys() - good
        except (BufferUnusable, Killed) as error:
            self.maybe[chat] |= good
            self.maybe_aside |= names.keys() - good
            if isinstance(error, Killed):
                self.die()
        except KeyRefused:
            self.there[chat] |= good
            self.aside |= names.keys() - good
        else:
            self.there[chat] |= good
            if is_committed:
                assert good == names.keys() <= set(self.api.kept[chat])
            self.aside |= names.keys() - good

    def die(self) -> None:
        """Start another bot where this one was killed."""
        Disk.lives = None
        # which closes its file as the end of a process does: what is not committed is lost
        self.memory._buffer._rows.close()
        with suppress(Killed, BufferUnusable):
            self.memory = self.start()

    @rule(
        chat=st.sampled_from(CHATS),
        bad=st.lists(st.sampled_from([False] * 9 + [True]), min_size=1, max_size=4),
    )
    def add(self, chat: str, bad: list[bool]) -> None:
        names = {}
        for is_bad in bad:
            self.number += 1
            names[f"{self.number:05}"] = is_bad
        messages: Any = [
            {"external_id": name, "sender_id": "x", "content": BAD if is_bad else "good"}
            for name, is_bad in names.items()
        ]
        self.hand_over(chat, names, lambda: self.memory.add(chat, *messages))

    @rule(
        chat=st.sampled_from(CHATS), is_bad=st.sampled_from([False] * 9 + [True]), what=st.sampled_from("EDI")
    )
    def change(self, chat: str, is_bad: bool, what: str) -> None:
        self.number += 1
        name = f"{self.number:05}"
        match what:
            case "E":
                act = partial(self.memory.edit, chat, name, BAD if is_bad else "good")
                named = f"PATCH {name}"
            case "D":
                act, is_bad, named = partial(self.memory.delete, chat, name), False, f"DELETE {name}"
            case _:
                update = {
                    "update_id": name,
                    "message": {"chat": {"id": chat[-1]}, "text": BAD if is_bad else "good"},
                }
                act, named = partial(self.memory.event, "telegram", update), f"event {name}"
        self.hand_over(chat, {named: is_bad}, act)

    @rule(drawn=st.lists(faults(), min_size=1, max_size=6))
    def go_wrong(self, drawn: list[Fault]) -> None:
        self.api.faults += drawn

    @rule(chat=st.sampled_from(CHATS), fault=faults())
    def fall_ill(self, chat: str, fault: Fault) -> None:
        self.api.ill[chat] = fault

    @rule()
    def recover(self) -> None:
        self.api.ill, self.api.faults = {}, []

    @rule(most=st.none() | st.integers(1, 3))
    def limit(self, most: int | None) -> None:
        self.api.most = most

    @rule(seconds=st.sampled_from([0.3, 40.0, 1000.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(is_full=st.booleans())
    def fill(self, is_full: bool) -> None:
        Disk.is_full = is_full

    @rule(statements=st.integers(0, 8))
    def be_killed_soon(self, statements: int) -> None:
        Disk.lives = statements

    @rule()
    def flush(self) -> None:
        try:
            is_sent = self.memory.flush()
        except Killed:
            self.die()
        except (KeyRefused, BufferUnusable):
            pass
        else:
            assert is_sent is (self.memory.waiting == 0)

    @rule()
    def ask(self) -> None:
        """A question fails for its own reasons alone."""
        known = {chat: set(there) for chat, there in self.there.items()}
        self.api.ill[""] = lambda request, api: httpx.Response(200, json={"hits": []})
        waited = self.memory.waiting
        try:
            assert self.memory.search(CHATS[0], "?") == {"hits": []}
        except Killed:
            self.die()
        assert waited or known == self.there
        del self.api.ill[""]

    @rule()
    def end(self) -> None:
        """At last the API is healthy, but for one chat, and then for all; only the most that it takes at once stays."""
        Disk.is_full, Disk.lives, self.api.faults = False, None, []
        self.memory.close()
        self.memory = self.start()
        self.api.ill = {CHATS[0]: lambda request, api: problem(503, **{"Retry-After": "3600"})}
        is_sent = self.memory.flush()
        assert is_sent is (self.memory.waiting == 0)
        self.check(CHATS[1:])
        self.api.ill = {}
        assert self.memory.flush() is True
        self.check(CHATS)
        aside = {self.name_of(request) for request in self.memory.set_aside()}
        assert self.aside <= aside <= self.aside | self.maybe_aside

    def name_of(self, request: SetAside) -> str:
        (name,) = self.api.read(
            httpx.Request(request.method, f"http://x{request.path}", content=request.body)
        )[1]
        return name

    def check(self, chats: tuple[str, ...]) -> None:
        for chat in chats:
            kept = self.api.kept.get(chat, [])
            assert kept == sorted(kept, key=lambda name: name[-5:])
            assert self.there[chat] <= set(kept) <= self.there[chat] | self.maybe[chat]


def test_all_is_there_once_in_order_whatever_was_answered_killed_or_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(buffer.sqlite3, "connect", partial(sqlite3.connect, factory=Disk))
    Bots.clock = Clock(monkeypatch)
    run_state_machine_as_test(Bots, settings=settings(max_examples=80, stateful_step_count=30))
