"""When what waits is sent: in which order, how much of it at once, for how long, and after which pauses."""

from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from backscroll_client import Forbidden, KeyRefused, Unavailable, calls

from tests.clients_python.doubles import ONE, TWO, Api, Clock, Fault, away, names, problem, said

CHATS = [f"telegram:{number}" for number in range(8)]


def put_off(request: httpx.Request, api: Api) -> httpx.Response:
    return problem(503)


def slow(clock: Clock, seconds: float, then: Fault = lambda request, api: api.take(request)) -> Fault:
    """The API takes its time."""

    def fault(request: httpx.Request, api: Api) -> httpx.Response:
        clock.now += seconds
        return then(request, api)

    return fault


def left_in(api: Api, path: Path, chats: list[str]) -> None:
    """Leave a message in each of these chats."""
    api.ill = dict.fromkeys(chats, away)
    with api.client(path) as memory:
        for number, chat in enumerate(chats):
            assert memory.add(chat, said(number)) is False
    api.ill, api.requests = {}, 0


# For how long


@pytest.mark.parametrize("chats", [1, 5])
def test_a_question_sends_what_its_patience_has_time_for(
    api: Api, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, chats: int
) -> None:
    # Given five changes that wait, each a request of its own, of one chat or of as many
    named = [CHATS[number % chats] for number in range(5)]
    api.ill = dict.fromkeys(named, away)
    with api.client(path, patience=2) as memory:
        for number, chat in enumerate(named):
            assert memory.delete(chat, f"{number}") is False
        # When each takes the API a while
        api.ill = dict.fromkeys(named, slow(clock, 1.5))
        memory.search(ONE, "?")
        assert memory.waiting == 3
        assert "there was no time to send all that waits" in caplog.text
        # Then a flush has the time
        assert memory.flush() is True


def test_a_change_sends_what_waits_of_every_chat_for_half_a_minute(
    api: Api, path: Path, clock: Clock
) -> None:
    left_in(api, path, CHATS[:3])
    timeouts = []

    def take(request: httpx.Request, api: Api) -> httpx.Response:
        timeouts.append(request.extensions["timeout"]["read"])
        return api.take(request)

    api.ill = dict.fromkeys(CHATS, slow(clock, 15.25, take))
    with api.client(path) as memory:
        assert memory.add(CHATS[3], said(3)) is False
        assert list(api.kept) == CHATS[:2]
        assert memory.add(CHATS[3], said(4)) is True
    assert api.kept[CHATS[3]] == names(3, 4)
    assert timeouts == [60] * 4


@pytest.mark.parametrize(("seconds", "is_taken", "asked"), [(15, False, 3), (15.25, False, 2), (15, True, 4)])
def test_a_flush_ends_when_nothing_is_taken_for_half_a_minute(
    api: Api, path: Path, clock: Clock, seconds: float, is_taken: bool, asked: int
) -> None:
    left_in(api, path, CHATS)
    api.ill = dict.fromkeys(CHATS, slow(clock, seconds, put_off))
    if is_taken:
        api.ill[CHATS[0]] = slow(clock, seconds)
    with api.client(path) as memory:
        assert memory.flush() is False
        assert api.requests == asked
        # if nothing at all was, it is the API, and everything rests
        api.ill = {}
        assert memory.add("telegram:9", said(9)) is is_taken
        assert (api.requests == asked) is not is_taken


def test_a_question_is_asked_again_after_pauses_that_grow_while_there_is_patience(
    api: Api, clock: Clock
) -> None:
    def pauses(answer: httpx.Response) -> list[float]:
        asked = []

        def fault(request: httpx.Request, api: Api) -> httpx.Response:
            asked.append(clock.now)
            return answer

        api.ill[""] = fault
        with api.client(patience=10) as memory, pytest.raises(Unavailable) as told:
            memory.search(ONE, "?")
        assert told.value.retry_after == (4 if "Retry-After" in answer.headers else None)
        return [later - earlier for earlier, later in pairwise(asked)]

    rests = pauses(problem(503))
    # not all clients at the same time
    assert all(2**n / 8 <= rest <= 2**n / 4 for n, rest in enumerate(rests))
    assert sum(rests) <= 10 < sum(rests) + 2 ** len(rests) / 4
    assert pauses(problem(503, **{"Retry-After": "4"})) == [4, 4]


def test_while_nobody_answers_one_request_asks_for_all_after_rests_that_grow(
    api: Api, path: Path, clock: Clock
) -> None:
    moment = 2**-6
    api.ill = {ONE: away, TWO: away}
    with api.client(path) as memory:
        assert memory.add(ONE, said(0)) is False
        for number, rest in enumerate([0.25, 0.5, 1, 2, 4, 8, 16, 30, 30], start=1):
            clock.now += rest - moment
            assert memory.add(TWO, said(number)) is False
            assert api.requests == number
            clock.now += moment
            assert memory.add(ONE, said(number)) is False
            assert api.requests == number + 1


# In which order, and how much


def test_a_question_goes_on_to_other_chats_until_three_in_a_row_are_put_off(api: Api, path: Path) -> None:
    left_in(api, path, CHATS)
    api.ill = {CHATS[number]: put_off for number in (0, 1, 3, 4)}
    with api.client(path) as memory:
        memory.search(ONE, "?")
    assert list(api.kept) == [CHATS[number] for number in (2, 5, 6, 7)]


def test_chats_that_are_put_off_let_others_go_first_the_next_time(api: Api, path: Path) -> None:
    left_in(api, path, CHATS[:5])
    api.ill = dict.fromkeys(CHATS[:4], put_off)
    with api.client(path) as memory:
        memory.search(ONE, "?")
        assert api.kept == {}
        memory.search(ONE, "?")
        assert list(api.kept) == [CHATS[4]]


@pytest.mark.parametrize(("size", "together"), [(2**18, 8), (2**18 + 1, 7)])
def test_what_is_sent_together_is_two_mebibytes_at_most(
    api: Api, path: Path, size: int, together: int
) -> None:
    sent = []

    def take(request: httpx.Request, api: Api) -> httpx.Response:
        sent.append(len(api.read(request)[1]))
        return api.take(request)

    frame = len(calls.add(ONE, said(0, "") | {"sent_at": 1777300000}).body)
    api.ill[ONE] = away
    with api.client(path) as memory:
        for number in range(9):
            memory.add(ONE, said(number, "x" * (size - frame)) | {"sent_at": 1777300000})
    api.ill[ONE] = take
    with api.client(path) as memory:
        assert memory.flush() is True
    assert sent == [together, 9 - together]
    assert api.kept[ONE] == names(*range(9))


# What the caller is told


@pytest.mark.parametrize("forbidden", [0, 1])
def test_a_flush_tells_of_the_key_whatever_else_waits(api: Api, path: Path, forbidden: int) -> None:
    left_in(api, path, CHATS[:2])
    api.ill = dict.fromkeys(CHATS[:2], put_off)
    api.ill[CHATS[forbidden]] = lambda request, api: problem(403)
    with api.client(path) as memory, pytest.raises(Forbidden):
        memory.flush()


def test_whoever_hands_over_several_is_told_of_the_key_though_some_are_committed(
    api: Api, path: Path
) -> None:
    def end(request: httpx.Request, api: Api) -> httpx.Response:
        _, named, _ = api.read(request)
        return problem(413 if len(named) > 1 else 401) if named != names(1) else api.take(request)

    api.ill[ONE] = end
    with api.client(path) as memory, pytest.raises(KeyRefused, match="waits in the buffer"):
        memory.add(ONE, said(1), said(2))
    assert api.kept[ONE] == names(1)
