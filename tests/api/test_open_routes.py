"""Nobody without a key holds up the HTTP API: every open route takes the worst, while others are served.

The routes come from the table of access and from the application, so that a new one is walked as well.
"""

import asyncio
import hmac
import http.client
import http.cookies
import json
import re
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import wraps
from typing import Any

import httpx
import pydantic_core
import pytest
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from starlette.routing import BaseRoute

from ops.local.embedded.postgres import EmbeddedPostgres
from schemas.messages import MAX_QUERY_CHARS
from tests.api.conftest import body, problem_of, said
from tests.conftest import MIGRATED, settings_of
from tests.waiting import ended
from workers.api import protocol
from workers.api.app import make_web_app
from workers.api.bodies import LOOP_BYTES, MAX_BODY_BYTES
from workers.api.inspector.pages import MAX_FORM_BYTES
from workers.api.routes import ROUTERS
from workers.api.scopes import ACCESS

PARSERS: list[Callable[..., Any]] = [
    *(json.loads, json.JSONDecoder.decode, pydantic_core.from_json, hmac.digest, http.cookies._unquote),  # type: ignore[attr-defined]
    *(urllib.parse.parse_qsl, urllib.parse.unquote, urllib.parse.urlsplit),
]
Parsed = list[tuple[str, int, bool]]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Parsed:
    """What was parsed, wherever a parser was imported: its name, bytes, and whether an event loop waited for it."""
    seen: Parsed = []

    def watched(parser: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(parser)
        def noting(*args: Any, **named: Any) -> Any:
            size = max((len(arg) for arg in args if isinstance(arg, str | bytes | bytearray)), default=0)
            seen.append((parser.__name__, size, asyncio._get_running_loop() is not None))
            return parser(*args, **named)

        return noting

    for parser in PARSERS:
        noting = watched(parser)
        for owner in [json.JSONDecoder, *sys.modules.values()]:
            for name in [name for name, value in list(vars(owner).items()) if value is parser]:
                monkeypatch.setattr(owner, name, noting)
    return seen


def open_routes(postgres: EmbeddedPostgres) -> list[tuple[str, str]]:
    """`(method, path)` of all that needs no key: in the table, beside it, and nowhere."""
    table = [name.split(" ") for name, access in ACCESS.items() if access.is_open]
    app = make_web_app(settings_of(postgres, MIGRATED, redis_url="redis://127.0.0.1:1"))

    def path(route: BaseRoute) -> str:
        return str(getattr(route, "path", ""))

    known = {name.split(" ")[1] for name in ACCESS}
    beside = [("GET", path(route)) for route in app.routes if path(route) and path(route) not in known]
    missing = ("/v1/nothing", "/.well-known/{name}", "/inspect/chats", "/v1/messages", "/docs/assets/{name}")
    assert len(table) >= 9
    assert {"/docs", "/openapi.json"} <= {path for _, path in beside}
    return [*((method, path) for method, path in table), *beside, *(("GET", path) for path in missing)]


def send(
    client: httpx.Client, method: str, target: str, headers: dict[str, bytes], content: bytes = b""
) -> int:
    """The status of the answer to a request as nobody's library would send it."""
    with closing(http.client.HTTPConnection(client.base_url.host, client.base_url.port, timeout=180)) as line:
        line.putrequest(method, target, skip_host="host" in headers)
        for name, value in {"Content-Length": str(len(content)).encode(), **headers}.items():
            line.putheader(name, value)
        line.endheaders()
        # one that is refused early may be closed before all of it is sent
        with suppress(ConnectionError):
            line.send(content)
        with line.getresponse() as answer:
            return answer.status


LONGEST = protocol.MAX_URL_BYTES - 200
HEADER = protocol.MAX_HEADER_BYTES - 1000
FORM = {"sec-fetch-site": b"same-origin"}
WORST: dict[str, tuple[str, str, dict[str, bytes], bytes]] = {
    # what stands for an id of the path, the query, headers and the body
    "a form": ("x", "", FORM, b"key=" + b"%41" * ((MAX_BODY_BYTES - 10) // 3)),
    "a small form": ("x", "", FORM, b"key=" + b"%41" * 2000),
    "fields": ("x", "", FORM, b"&".join(b"a%d=1" % n for n in range(60))),
    "very many fields": ("x", "", FORM, b"a&" * (MAX_BODY_BYTES // 2)),
    "JSON": ("x", "", FORM, b"[" + b",".join([b"{}"] * 900_000) + b"]"),
    "a path": ("%2f%41" * (LONGEST // 6), "", {}, b""),
    "a query": ("x", "?next=" + "%41" * (LONGEST // 3), {}, b""),
    "parameters": ("x", "?" + "a=&" * (LONGEST // 3), {}, b""),
    "a header": ("x", "", {"x-long": b"h" * HEADER}, b""),
    "another's cookie": ("x", "", {"cookie": b'a="' + b"\\" * HEADER + b'"'}, b""),
    "our cookie": ("x", "", {"cookie": b"backscroll_inspector=" + b"A" * HEADER}, b""),
    "cookies": ("x", "", {"cookie": b"a=b;" * (HEADER // 4)}, b""),
    "an origin": ("x", "", {"origin": b"http://[::"}, b"key=x"),
    "a key": ("x", "", {"authorization": b"Bearer bks_" + b"k" * HEADER}, b""),
    "a host": ("x", "", {"host": b"[::"}, b""),
    "proxies": ("x", "", {"x-forwarded-for": b"1," * (HEADER // 2), "x-forwarded-proto": b"https"}, b""),
    "ranges": ("x", "", {"range": b"bytes=" + b"0-1," * (HEADER // 4)}, b""),
}


@pytest.fixture
def watched(standing_client: httpx.Client) -> Iterator[None]:
    """All the while somebody asks whether the API lives, and somebody else uses it."""
    statuses, over = set(), threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            statuses.add(httpx.get(standing_client.base_url.join("/healthz")).status_code)
            statuses.add(standing_client.get("/v1/chats").status_code)

    watching = threading.Thread(target=watch)
    watching.start()
    yield
    over.set()
    ended(watching)
    assert statuses == {200}


@pytest.mark.usefixtures("watched")
def test_no_open_route_parses_more_than_a_few_kib_in_the_event_loop_or_fails(
    standing_client: httpx.Client, postgres: EmbeddedPostgres, parsed: Parsed
) -> None:
    for method, path in open_routes(postgres):
        for kind, (part, query, headers, content) in WORST.items():
            # a platform has to be one
            target = re.sub(r"{.*?}", part, path.replace("{platform}", "telegram"))
            del parsed[:]
            status = send(standing_client, method, target + query, headers, content)
            told = f"{method} {path} with {kind}: {status}"
            assert status < 500 or (path, status) == ("/readyz", 503), told
            in_loop = [seen for seen in parsed if seen[2] and seen[1] > protocol.MAX_URL_BYTES]
            assert not in_loop, f"{told}, {in_loop[:3]}"


@pytest.mark.usefixtures("watched")
def test_bodies_are_parsed_in_the_event_loop_only_if_they_are_small(
    standing_client: httpx.Client, parsed: Parsed
) -> None:
    made = standing_client.post("/v1/sources", json={"platform": "standard"}).json()
    hook = {"webhook-id": b"1", "webhook-timestamp": b"1", "webhook-signature": b"v1,x"}
    keyed = {"authorization": b"Bearer test-key"}
    for path, headers, status, size in (
        ("/v1/messages", keyed, 202, 2 * LOOP_BYTES),
        ("/v1/events/standard", keyed, 422, 2 * LOOP_BYTES),
        ("/v1/context", keyed, 422, 2 * LOOP_BYTES),
        ("/v1/context", keyed, 422, LOOP_BYTES // 2),
        (made["path"], hook, 401, 2 * LOOP_BYTES),
    ):
        del parsed[:]
        content = json.dumps(body(said(1, "x" * size))).encode()
        assert send(standing_client, "POST", path, headers, content) == status
        waited_for = {seen[2] for seen in parsed if seen[1] >= size}
        assert waited_for == {size < LOOP_BYTES}, path


def test_a_form_has_a_limit_that_its_refusal_names(standing_client: httpx.Client) -> None:
    login = standing_client.base_url.join("/inspect/login")
    refused = httpx.post(login, data={"key": "x" * MAX_FORM_BYTES}, headers={"Sec-Fetch-Site": "same-origin"})
    assert refused.status_code == 413
    assert str(MAX_FORM_BYTES) in refused.text
    many = "&".join(f"a{n}=1" for n in range(60))
    refused = httpx.post(login, content=many, headers={"Sec-Fetch-Site": "same-origin"})
    assert refused.status_code == 422
    assert "50 fields" in refused.text
    # and one that asks takes the longest question there is
    with httpx.Client(base_url=standing_client.base_url, headers={"Sec-Fetch-Site": "same-origin"}) as client:
        client.post("/inspect/login", data={"key": "test-key"})
        asked = client.post("/inspect/ask", data={"query": "👍" * MAX_QUERY_CHARS, "chat_id": "no:chat"})
        assert asked.status_code == 404
        assert "no:chat" in asked.text


def test_what_no_hook_can_need_is_refused_before_it_is_read(standing_client: httpx.Client) -> None:
    made = standing_client.post("/v1/sources", json={"platform": "telegram"}).json()
    proof = {"x-telegram-bot-api-secret-token": made["secret"].encode()}
    # of an unknown source, without the token, and of a size that Telegram does not send
    for path, headers, status in (
        ("/v1/events/telegram/unknown", proof, 404),
        (made["path"], {}, 401),
        (made["path"], proof, 413),
    ):
        with closing(
            http.client.HTTPConnection(
                standing_client.base_url.host, standing_client.base_url.port, timeout=60
            )
        ) as line:
            line.putrequest("POST", path)
            for name, value in {"Content-Length": b"7000000", **headers}.items():
                line.putheader(name, value)
            line.endheaders()
            # not a byte of it is sent
            with line.getresponse() as answer:
                assert answer.status == status


def test_a_url_and_headers_have_limits(standing_client: httpx.Client) -> None:
    long = "/v1/chats/" + "x" * protocol.MAX_URL_BYTES
    refused = standing_client.get(long)
    assert (refused.status_code, str(protocol.MAX_URL_BYTES) in refused.json()["detail"]) == (414, True)
    # two ids of 255 characters of four bytes are taken
    address = f"/v1/messages/{urllib.parse.quote('👍' * 255)}/{urllib.parse.quote('👍' * 255)}"
    assert standing_client.delete(address).status_code == 200
    problem_of(standing_client.post(f"/v1/users/{'%2f%41' * 1000}"), 405)


@pytest.fixture(scope="module")
def keyed(standing_client: httpx.Client) -> dict[str, bytes]:
    """Headers of somebody with a key, for routes and for pages."""
    login = standing_client.base_url.join("/inspect/login")
    answered = httpx.post(login, data={"key": "test-key"}, headers={"Sec-Fetch-Site": "same-origin"})
    cookie = answered.headers["set-cookie"].partition(";")[0].encode()
    return {"authorization": b"Bearer test-key", "cookie": cookie, **FORM}


ODD = ("%00", "%ff", "%ed%a0%80", "9" * 30, "-1", "1e999", "0001-01-01T00:00:00%2B23:00", "x" * 300)


def parameters(route: APIRoute) -> list[str]:
    """The names in a route's query."""
    of = [(field.name, field.field_info.annotation) for field in route.dependant.query_params]
    return [name for field, kind in of for name in getattr(kind, "model_fields", [field])]


def test_no_id_of_a_path_and_no_parameter_is_a_defect(
    standing_client: httpx.Client, keyed: dict[str, bytes]
) -> None:
    for route in (route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)):
        for odd in ODD:
            path, plain = (re.sub(r"{.*?}", part, route.path) for part in (odd, "1"))
            for target in (path, *(f"{plain}?{name}={odd}" for name in parameters(route))):
                (method,) = route.methods
                status = send(standing_client, method, target, keyed)
                assert status < 500 or path == "/readyz", f"{method} {target}: {status}"


ANY_BYTES = st.binary(max_size=40).map(lambda value: value.translate(None, b"\r\n"))
HEADERS = st.sampled_from(
    ["cookie", "origin", "sec-fetch-site", "accept", "content-type", "hx-request", "host", "range"]
)
FORMS = st.sampled_from(
    [b"key=%00", b"key=%ed%a0%80&next=%00", b"kind=%ff&key=%00", b"{}", b"null", b'"\\ud800"']
)


@examples(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    route=st.sampled_from(sorted(ACCESS)),
    headers=st.dictionaries(HEADERS, ANY_BYTES, max_size=3),
    content=st.binary(max_size=60) | FORMS,
)
def test_no_bytes_in_headers_and_bodies_are_a_defect(
    standing_client: httpx.Client,
    keyed: dict[str, bytes],
    route: str,
    headers: dict[str, bytes],
    content: bytes,
) -> None:
    method, path = route.split(" ")
    status = send(standing_client, method, re.sub("{.*?}", "1", path), keyed | headers, content)
    assert status < 500 or path == "/readyz", status
