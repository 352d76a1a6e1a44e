"""Who may see the inspector: a key in a cookie, of one tenant, with the scopes that a page needs, and no other site."""

import re
from collections.abc import Iterator

import httpx
import pytest

from pipeline.people import api_keys
from pipeline.store.connections.database import Database
from schemas.bots import KeyIn, NewKey
from schemas.settings import Settings
from tests.api.conftest import served
from tests.commands.conftest import CHAT
from tests.conftest import TENANT
from tests.inspector.conftest import logged_in
from tests.waiting import until
from workers.api.scopes import ACCESS

Standing = tuple[httpx.Client, Database]
PAGES = sorted(name for name, access in ACCESS.items() if "/inspect" in name and not access.is_open)
PARTS = {"chat_id": CHAT, "context_id": "ctx_1", "memory_id": "01a21ccf-1532-741b-b892-515ddd322979"}


def key_of(database: Database, tenant: str = TENANT, **given: object) -> NewKey:
    return api_keys.create(database, tenant, KeyIn.model_validate({"label": "a key"} | given))


@pytest.fixture(scope="module")
def stranger(standing: Standing) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=standing[0].base_url, timeout=180) as client:
        yield client


@pytest.mark.parametrize("route", PAGES)
def test_nothing_is_shown_and_done_without_a_login(stranger: httpx.Client, route: str) -> None:
    method, path = re.sub(r"{(\w+)}", lambda part: PARTS.get(part[1], "1"), route).split()
    answered = stranger.request(method, path, headers={"Sec-Fetch-Site": "same-origin"})
    assert answered.status_code == 303
    assert answered.headers["location"].startswith("/inspect/login")
    # nor for the key in a header, which any page could be made to send
    bearer = {"Authorization": "Bearer test-key", "Cookie": "backscroll_inspector=test-key"}
    answered = stranger.request(method, path, headers=bearer | {"Sec-Fetch-Site": "same-origin"})
    assert answered.status_code == 303


def test_the_login_leads_back_to_where_one_was_going(stranger: httpx.Client) -> None:
    sent = stranger.get("/inspect/people/telegram%3A13")
    asked = stranger.get(sent.headers["location"])
    (following,) = re.findall(r'name="next" value="([^"]*)"', asked.text)
    given = {"key": "test-key", "next": following}
    answered = stranger.post("/inspect/login", data=given, headers={"Sec-Fetch-Site": "same-origin"})
    assert answered.headers["location"] == "/inspect/people/telegram:13"
    for elsewhere in ("//evil.example", "/inspect/../v1/chats", "/inspect/\\evil"):
        given["next"] = elsewhere
        answered = stranger.post("/inspect/login", data=given, headers={"Sec-Fetch-Site": "same-origin"})
        assert answered.headers["location"] == "/inspect/chats"


def test_the_cookie_holds_no_key_is_kept_from_scripts_and_other_sites_and_cannot_be_made(
    standing: Standing,
) -> None:
    api, database = standing
    secret = key_of(database, scopes=["read"]).key
    with logged_in(api, secret) as client:
        answered = client.post("/inspect/login", data={"key": secret})
        cookie = answered.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/inspect"} <= set(cookie.split("; "))
        value = client.cookies["backscroll_inspector"]
        assert secret not in cookie
        assert secret.removeprefix("bks_") not in value
        assert client.get("/inspect/chats").status_code == 200
        for forged in (value[:-8] + "AAAAAAA=", value[:20] + "A" + value[21:], "", "é"):
            header = {"Cookie": f"backscroll_inspector={forged}".encode()}
            answered = httpx.get(f"{client.base_url}/inspect/chats", headers=header)
            assert answered.status_code == 303
        answered = client.post("/inspect/logout")
        assert answered.headers["location"] == "/inspect/login"
        assert client.get("/inspect/chats").status_code == 303


def test_over_https_the_cookie_is_never_sent_in_clear(standing: Standing) -> None:
    api, _ = standing
    # as a proxy on this machine tells it, or the browser, whatever the proxy is
    for told in ({"X-Forwarded-Proto": "https"}, {"Origin": "https://bots.example.org"}):
        headers = {"Sec-Fetch-Site": "same-origin", **told}
        answered = httpx.post(f"{api.base_url}/inspect/login", data={"key": "test-key"}, headers=headers)
        assert "Secure" in answered.headers["set-cookie"].split("; ")
    with logged_in(api) as client:
        assert "Secure" not in client.post("/inspect/login", data={"key": "test-key"}).headers["set-cookie"]


def test_a_logout_ends_the_login_wherever_its_cookie_was_copied_to(settings: Settings) -> None:
    # Given two processes, and a cookie of one of two logins with the same key that somebody has copied
    with (
        served(settings) as one,
        served(settings) as two,
        logged_in(one) as client,
        logged_in(one) as another,
    ):
        copied = {"Cookie": f"backscroll_inspector={client.cookies['backscroll_inspector']}"}
        page = two.base_url.join("/inspect/chats")
        assert httpx.get(page, headers=copied).status_code == 200
        # When that login is ended, which another site cannot make the browser do
        assert client.post("/inspect/logout", headers={"Origin": "https://evil.example"}).status_code == 403
        assert httpx.get(page, headers=copied).status_code == 200
        client.post("/inspect/logout")
        # Then nobody comes in with the copy, and the other login stays
        assert httpx.get(page, headers=copied).headers["location"].startswith("/inspect/login")
        assert another.get("/inspect/chats").status_code == 200


def test_a_revoked_key_is_refused_while_its_cookie_lives(standing: Standing) -> None:
    api, database = standing
    key = key_of(database, scopes=["read"])
    with logged_in(api, key.key) as client:
        assert client.get("/inspect/chats").status_code == 200
        api_keys.revoke(database, TENANT, key.id)
        until(lambda: client.get("/inspect/chats").status_code == 303, "the key is refused")


def test_a_key_without_read_and_one_of_some_chats_are_told_why_they_are_refused(standing: Standing) -> None:
    api, database = standing
    for given, reason in (
        ({"scopes": ["ingest", "context"]}, "scope `read`"),
        ({"scopes": ["read"], "chats": [CHAT]}, "only for some chats"),
    ):
        sent = {"key": key_of(database, **given).key}
        answered = httpx.post(
            f"{api.base_url}/inspect/login", data=sent, headers={"Sec-Fetch-Site": "same-origin"}
        )
        assert answered.status_code == 403
        assert reason in answered.text
        assert "set-cookie" not in answered.headers
    answered = httpx.post(
        f"{api.base_url}/inspect/login", data={"key": "bks_no"}, headers={"Sec-Fetch-Site": "same-origin"}
    )
    assert answered.status_code == 401
    assert "unknown here" in answered.text


def test_what_changes_something_needs_operate(standing: Standing) -> None:
    api, database = standing
    with logged_in(api, key_of(database, scopes=["read"]).key) as client:
        assert '<button class="main">Start' not in client.get("/inspect/backfills").text
        refused = client.post("/inspect/backfills", data={"kind": "embed"})
        assert refused.status_code == 403
        assert "operate" in refused.text
    with logged_in(api, key_of(database, scopes=["read", "operate"]).key) as client:
        assert client.post("/inspect/backfills", data={"kind": "embed"}).status_code == 303
        assert "embed" in client.get("/inspect/backfills").text


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_a_form_of_another_site_does_nothing(standing: Standing, headers: dict[str, str]) -> None:
    with logged_in(standing[0]) as client:
        before = client.get("/inspect/backfills").text
        for path in ("backfills", "jobs/drop", "logout", "login"):
            refused = client.post(f"/inspect/{path}", data={"kind": "summarize"}, headers=headers)
            assert refused.status_code == 403
        assert client.get("/inspect/backfills").text == before


def test_another_tenant_sees_nothing(standing: Standing) -> None:
    api, database = standing
    asked = api.post("/v1/context", json={"chat_id": CHAT, "query": "the boiler?"}).json()
    with logged_in(api, key_of(database, "another", scopes=["read", "operate"]).key) as client:
        for path in ("chats", "queries", "people", "jobs", "backfills"):
            page = client.get(f"/inspect/{path}")
            assert page.status_code == 200
            assert "Harbour House" not in page.text
            assert CHAT not in page.text
        for path in (f"chats/{CHAT}", "sessions/1", "messages/1", f"queries/{asked['context_id']}"):
            page = client.get(f"/inspect/{path}")
            assert page.status_code == 404
            assert "Harbour" not in page.text
        assert client.post("/inspect/ask", data={"query": "boiler", "chat_id": CHAT}).status_code == 404


def test_every_page_says_what_a_browser_may_do_with_it(standing: Standing, stranger: httpx.Client) -> None:
    with logged_in(standing[0]) as client:
        for answered in (
            client.get("/inspect/chats"),
            client.get("/inspect/chats/no"),
            stranger.get("/inspect"),
        ):
            policy = answered.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answered.headers["cache-control"] == "no-store"
            assert answered.headers["x-content-type-options"] == "nosniff"
