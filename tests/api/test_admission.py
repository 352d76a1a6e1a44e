"""What a key admits, decided before anything is read of a request: its scope, its chats, its rate."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st

from pipeline.people.api_keys import GrantsTooMuch, _require_within
from schemas.bots import CurrentKey, KeyIn
from workers.api import admission
from workers.api.admission import COUNTED, RequestRates, admit, permit, take_messages
from workers.api.problems import HttpError
from workers.api.scopes import Access, ChatPlace

OWN, OTHER = "telegram:-1", "telegram:-2"


def key_of(**fields: Any) -> CurrentKey:
    return CurrentKey.model_validate(
        {"id": 1, "tenant": "a", "label": "", "scopes": ["read"], "chats": None} | fields
    )


def request(
    rates: RequestRates | None = None, *, path: str = "", query: Sequence[str] = (), **scope: object
) -> Request:
    api = SimpleNamespace(request_rates=rates or RequestRates(1))
    return Request(
        {
            "type": "http",
            "headers": [],
            "app": SimpleNamespace(state=SimpleNamespace(api=api)),
            "path_params": {"chat_id": path},
            "query_string": "&".join(f"chat_id={chat}" for chat in query).encode(),
        }
        | scope
    )


def refusal(key: CurrentKey, access: Access, asked: Request) -> int | None:
    try:
        asyncio.run(permit(asked, key, access))
    except HttpError as error:
        return error.status
    return None


# Scopes and chats


def test_a_key_reaches_what_its_scope_says_and_what_needs_none() -> None:
    for scope, refused in (("read", None), ("write", 403), (None, None)):
        assert refusal(key_of(), Access(scope, "nowhere"), request()) == refused


@pytest.mark.parametrize(
    ("place", "asked", "refused"),
    [
        ("path", {"path": OWN}, None),
        ("path", {"path": OTHER}, 403),
        # only the place where the route looks counts
        ("path", {"path": OTHER, "query": [OWN]}, 403),
        ("query", {"query": [OWN]}, None),
        ("query", {"query": [OWN, OTHER], "path": OWN}, 403),
        ("query", {"query": [], "path": OWN}, 403),
        (None, {"path": OWN, "query": [OWN]}, 403),
        ("nowhere", {}, None),
        # the endpoint reads its body first
        ("body", {}, None),
    ],
)
def test_a_key_of_some_chats_names_one_of_them_and_no_other(
    place: ChatPlace | None, asked: dict[str, Any], refused: int | None
) -> None:
    access = Access("read", place)
    assert refusal(key_of(chats=[OWN, "x:1"]), access, request(**asked)) == refused
    # and to a key of all chats it is all the same
    assert refusal(key_of(), access, request(**asked)) is None


CHATS = st.lists(st.sampled_from([OWN, OTHER, "x:1", None]), max_size=3)


@given(st.none() | st.sets(st.sampled_from([OWN, OTHER, "x:1"]), min_size=1), CHATS)
def test_a_body_names_chats_of_the_key_before_anybody_learns_the_tenant(
    chats: set[str] | None, named: list[str | None]
) -> None:
    caller = asyncio.run(permit(request(), key_of(chats=chats and sorted(chats)), Access("read", "body")))
    may = chats is None or (named != [] and all(chat in chats for chat in named))
    if may:
        caller.require_chats(named)
        assert caller.tenant == "a"
    else:
        with pytest.raises(HttpError, match="only for some chats"):
            caller.require_chats(named)
        with pytest.raises(RuntimeError):
            _ = caller.tenant


LIMITS = {
    "requests_per_second": (1, 2),
    "messages_per_day": (1, 2),
    "expires_at": ("2126-01-01T00:00:00Z", "2126-01-02T00:00:00Z"),
}
SOME = st.none() | st.sets(st.sampled_from([OWN, OTHER]), min_size=1)


@given(SOME, SOME, st.sampled_from([*LIMITS]), st.sampled_from([None, 0, 1]), st.sampled_from([None, 0, 1]))
def test_a_key_gives_no_more_chats_and_no_more_of_anything_than_it_has(
    chats: set[str] | None, given: set[str] | None, limit: str, own: int | None, wanted: int | None
) -> None:
    def fields(chats: set[str] | None, which: int | None) -> dict[str, Any]:
        return {"chats": chats and sorted(chats)} | ({} if which is None else {limit: LIMITS[limit][which]})

    grant = KeyIn.model_validate({"label": "x", "scopes": ["read"]} | fields(given, wanted))
    may_chats = chats is None or (given is not None and given <= chats)
    may = may_chats and (own is None or (wanted is not None and wanted <= own))
    with nullcontext() if may else pytest.raises(GrantsTooMuch) as refused:
        _require_within(key_of(**fields(chats, own)), grant)
    if refused is not None:
        assert refused.value.field == (limit if may_chats else "chats")


# Rates


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(admission, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def wait_told(rates: RequestRates, key: CurrentKey) -> int:
    """The seconds after which to come again; 0: admitted."""
    try:
        asyncio.run(rates.take(key))
    except HttpError as error:
        return int((error.headers or {})["Retry-After"]) if error.status == 429 else -1
    return 0


SHARES = [(8, 1, 8), (8, 2, 4), (1, 1, 1), (0.25, 1, 0.25), (1, 4, 0.25)]


@pytest.mark.parametrize(("rate", "processes", "share"), SHARES)
def test_a_key_makes_as_many_requests_as_it_may_and_is_told_when_it_may_again(
    clock: SimpleNamespace, rate: float, processes: int, share: float
) -> None:
    rates, limited = RequestRates(processes), key_of(requests_per_second=rate)
    made = []
    for _ in range(64):
        while not wait_told(rates, limited):
            made.append(clock.now)
        clock.now += 0.25
    # a second's worth at once, and then no more than this process's share, however they come
    assert len(made) == int(max(1, share) + 15.75 * share)
    assert made.count(made[0]) == max(1, share)
    # and whoever comes after the seconds that were told is let in, and not before
    while not (seconds := wait_told(rates, limited)):
        made.append(clock.now)
    clock.now += seconds - 1
    assert seconds == 1 or wait_told(rates, limited) == 1
    clock.now += 1
    assert not wait_told(rates, limited)


def test_a_key_without_a_rate_and_that_of_the_settings_make_as_many_as_they_like(
    clock: SimpleNamespace,
) -> None:
    rates = RequestRates(1)
    for key in (key_of(), key_of(id=None, requests_per_second=1, messages_per_day=1)):
        assert not any(wait_told(rates, key) for _ in range(1000))
        # nor are their messages counted anywhere
        take_messages(None, key, 1000)  # type: ignore[arg-type]


def test_keys_do_not_share_a_rate_and_a_tool_s_call_is_counted_with_its_request(
    clock: SimpleNamespace,
) -> None:
    rates = RequestRates(1)
    one, other = (key_of(id=number, requests_per_second=1) for number in (1, 2))
    access = Access("read")
    assert [refusal(key, access, request(rates)) for key in (one, other)] == [None, None]
    assert [refusal(key, access, request(rates)) for key in (one, other)] == [429, 429]
    assert refusal(one, access, request(rates, **{COUNTED: True})) is None
    # however long it was idle, it has a second's worth
    clock.now += 3600
    assert [refusal(one, access, request(rates)) for _ in range(2)] == [None, 429]


# Secrets


@pytest.mark.parametrize(
    ("header", "admitted"),
    [
        ("Bearer right", True),
        ("bearer  right ", True),
        ("Bearer wrong", False),
        # a secret that came otherwise was meant for somebody else
        ("Basic right", False),
        ("right", False),
        ("Bearer", False),
        ("Bearer é", False),
        ("", False),
    ],
)
def test_a_secret_is_taken_as_a_bearers_and_in_no_other_way(header: str, *, admitted: bool) -> None:
    class Keyring:
        async def find(self, secret: str) -> CurrentKey | None:
            return key_of() if secret == "right" else None

    asked = request(headers=[(b"authorization", header.encode())])
    asked.app.state.api.keyring = Keyring()
    if admitted:
        assert asyncio.run(admit(asked, Access("read"))).tenant == "a"
    else:
        with pytest.raises(HttpError) as refused:
            asyncio.run(admit(asked, Access("read")))
        assert refused.value.status == 401
        assert "Bearer" in (refused.value.headers or {})["WWW-Authenticate"]
