"""The buffer's file: full, broken, or of something else, and what is told and kept of it all the same."""

import contextlib
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import pytest
from backscroll_client import Backscroll, BufferUnusable, buffer
from backscroll_client.errors import Refused

from tests.clients_python.doubles import BAD, ONE, TWO, Api, Clock, Disk, away, left, names, problem, said


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> type[Disk]:
    monkeypatch.setattr(buffer.sqlite3, "connect", partial(sqlite3.connect, factory=Disk))
    monkeypatch.setattr(Disk, "is_full", False)
    return Disk


def test_a_full_disk_stops_nothing_that_the_api_takes(
    api: Api, path: Path, disk: type[Disk], monkeypatch: pytest.MonkeyPatch
) -> None:
    api.ill[ONE] = lambda request, api: problem(503)
    with api.client(path) as memory:
        assert memory.add(ONE, said(1)) is False
        monkeypatch.setattr(disk, "is_full", True)
        # Given a full disk, what would overtake another of its chat is not kept, and that is said
        with pytest.raises(
            BufferUnusable, match=r"full.*Make room on the disk.*was not kept: hand it over again"
        ):
            memory.add(ONE, said(2))
        # Then another chat goes on, and its own fault is told as ever
        assert memory.add(TWO, said(3)) is True
        with pytest.raises(Refused):
            memory.add(TWO, said(4, BAD))
        # When the API takes all, what is committed is not sent again, though the file does not know it
        api.ill = {}
        assert memory.add(ONE, said(5)) is True
        assert memory.flush() is True
        assert memory.waiting == 0
        sent = api.requests
        assert memory.flush() is True
        assert api.requests == sent
        # nor when nobody is there is anything lost in silence
        api.ill[ONE] = away
        with pytest.raises(BufferUnusable, match="hand it over again"):
            memory.add(ONE, said(6))
        # When there is room again it is as before
        monkeypatch.setattr(disk, "is_full", False)
        assert memory.add(ONE, said(7)) is False
        api.ill = {}
        assert memory.flush() is True
    # and of what is committed nothing is left in the file
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT * FROM waiting").fetchall() == []
    file.close()
    assert api.kept == {ONE: names(1, 5, 7), TWO: names(3)}


def test_a_full_buffer_stops_nothing_that_the_api_takes(api: Api, path: Path) -> None:
    api.ill[ONE] = lambda request, api: problem(503)
    with api.client(path, max_buffered=1) as memory:
        assert memory.add(ONE, said(1)) is False
        assert memory.add(TWO, said(2)) is True
        with pytest.raises(BufferUnusable, match=r"full: 1 requests wait.*hand it over again"):
            memory.add(ONE, said(3))
    assert api.kept == {TWO: names(2)}
    # and what waits is sent before what is behind it, of whichever chat
    with api.client(path, max_buffered=2) as memory:
        api.ill[TWO] = api.ill[ONE]
        assert memory.add(TWO, said(4)) is False
        api.ill = {}
        assert memory.add(TWO, said(5)) is True
    assert api.kept == {ONE: names(1), TWO: names(2, 4, 5)}


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_what_is_set_aside_takes_its_place_in_the_buffer(api: Api, path: Path, is_opened_again: bool) -> None:
    left(api, path, BAD, BAD)
    memory = api.client(path, max_buffered=3)
    assert memory.flush() is True
    if is_opened_again:
        memory.close()
        memory = api.client(path, max_buffered=3)
    api.ill[ONE] = lambda request, api: problem(503)
    with memory:
        assert memory.add(ONE, said(3)) is False
        with pytest.raises(BufferUnusable, match=r"full: 1 requests wait for the API, 2 are set aside"):
            memory.add(ONE, said(4))


FATES: list[Callable[[Backscroll], bool]] = [
    lambda memory: True,
    lambda memory: len(memory.set_aside()) == 1,
    lambda memory: memory.send_again(1) == 1,
    # it is gone already
    lambda memory: memory.drop(2) == 0,
]


@pytest.mark.parametrize("is_so", FATES)
def test_what_became_of_what_waited_is_known_though_the_disk_was_full(
    api: Api,
    path: Path,
    disk: type[Disk],
    monkeypatch: pytest.MonkeyPatch,
    is_so: Callable[[Backscroll], bool],
) -> None:
    left(api, path, BAD, "good")
    with api.client(path) as memory:
        monkeypatch.setattr(disk, "is_full", True)
        assert memory.flush() is True
        monkeypatch.setattr(disk, "is_full", False)
        assert is_so(memory)
    with api.client(path) as memory:
        assert memory.waiting + len(memory.set_aside()) == 1
        assert memory.drop(1) == 1
    assert api.kept[ONE] == names(1)


def test_a_file_that_cannot_be_read_any_more_is_told_to_whoever_is_not_served(
    api: Api, path: Path, clock: Clock, disk: type[Disk], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(request: httpx.Request, api: Api) -> httpx.Response:
        monkeypatch.setattr(disk, "is_broken", True)
        return api.take(request)

    left(api, path, "good")
    with api.client(path) as memory:
        # Given a disk that breaks before what is handed over is sent
        api.ill[ONE] = breaks
        with pytest.raises(BufferUnusable, match="disk I/O error"):
            memory.add(TWO, said(1))
        monkeypatch.setattr(disk, "is_broken", False)
        api.ill[ONE] = lambda request, api: problem(503)
        assert memory.add(ONE, said(2)) is False
        # and one that breaks after it
        clock.now += 1
        api.ill[TWO] = breaks
        assert memory.add(TWO, said(3)) is True
        monkeypatch.setattr(disk, "is_broken", False)
    assert api.kept == {ONE: names(0), TWO: names(1, 3)}


def test_a_file_of_something_else_is_refused_and_let_go(api: Api, path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE waiting (something)")
    with pytest.raises(BufferUnusable, match="no such column") as told:
        api.client(path)
    # whoever still looks at the error does not hold the file
    with contextlib.closing(sqlite3.connect(path, timeout=0)) as file:
        file.execute("DROP TABLE waiting")
    with api.client(path) as memory:
        assert memory.add(ONE, said(1)) is True
    assert str(path) in str(told.value)
