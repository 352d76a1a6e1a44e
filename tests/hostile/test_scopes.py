"""Every route with every scope, tenant and restriction to chats, over HTTP: nothing is reached that should not be."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import APIRouter

from pipeline.people import api_keys
from schemas.bots import SCOPES, KeyIn
from tests.api.conftest import served
from tests.hostile import victims
from tests.hostile.caller import THEMES, Call, Caller, calls, routes
from tests.hostile.conftest import Stage
from tests.hostile.victims import MALLORY, SECRET, SHARED_CHAT, VICTIM
from tests.tables import OF_TENANTS
from workers.api.api_route import ApiRoute
from workers.api.app import make_web_app
from workers.api.scopes import ACCESS, OPEN, Access
from workers.api.state import Tenant
from workers.mcp.tools import TOOLS

OWN_CHAT, OTHER_CHAT = "mallory:новый-чат", f"{MALLORY}:alone"
REFUSED = {401, 403}


@pytest.fixture(scope="module")
def client(stage: Stage) -> Iterator[httpx.Client]:
    """With the key of the hostile tenant, which has a chat to name."""
    with served(stage.settings) as client:
        said = {"external_id": "1", "sender_id": "mallory:ann", "content": "привет", "sent_at": 1777300000}
        assert client.post("/v1/messages", json={"chat": OWN_CHAT, "messages": said}).status_code == 202
        yield client


@contextlib.contextmanager
def holding(
    client: httpx.Client, stage: Stage, tenant: str = MALLORY, **given: object
) -> Iterator[httpx.Client]:
    wanted = KeyIn.model_validate({"label": "walker", "scopes": list(SCOPES)} | given)
    key = api_keys.create(stage.database, tenant, wanted).key
    with httpx.Client(
        base_url=client.base_url, headers={"Authorization": f"Bearer {key}"}, timeout=60
    ) as held:
        yield held


def walked(client: httpx.Client, stage: Stage) -> Iterator[tuple[str, Access, list[Call]]]:
    """Every route with its access and what is sent to it, naming whatever the victim has."""
    hidden = ("/inspect", "/mcp/")
    table = {
        name.replace(":path}", "}"): access
        for name, access in ACCESS.items()
        if not any(part in name for part in hidden)
    }
    described = routes(client)
    assert {f"{method.upper()} {path}" for method, path, _ in described} == set(table)
    for method, path, names in described:
        name = f"{method.upper()} {path}"
        yield name, table[name], list(calls(Caller(stage, THEMES[0]), method, path, names))


def naming(call: Call, chat: str, route: str) -> Call:
    parts = zip(route.partition(" ")[2].split("/"), call.url.split("/"), strict=True)
    url = "/".join(
        httpx.URL(f"/{chat}").raw_path.decode()[1:] if name == "{chat_id}" else part for name, part in parts
    )
    body = None if call.body is None else about(call.body, chat)
    query = {"chat_id": chat} if body is None else {}
    return replace(call, url=url, body=body, query=query)


def about(body: dict[str, Any], chat: str) -> dict[str, Any]:
    named = {field: chat for field in ("chat", "chat_id") if field in body}
    inner = {"data": about(body["data"], chat)} if "data" in body else {}
    return body | named | inner


def test_a_key_with_one_scope_reaches_the_routes_of_that_scope_alone(
    stage: Stage, client: httpx.Client
) -> None:
    before = victims.state(stage.superuser_url, MALLORY)
    with contextlib.ExitStack() as stack:
        holders = {scope: stack.enter_context(holding(client, stage, scopes=[scope])) for scope in SCOPES}
        allowed = []
        for (name, access, sent), scope in product(walked(client, stage), SCOPES):
            if access.scope in (None, scope):
                allowed.append((name, scope, sent))
                continue
            # whatever is sent: the scope is of the route
            answer = sent[0].by(holders[scope])
            assert answer.status_code == 403, f"{name} with {scope}: {answer.text}"
            assert f"`{access.scope}`" in answer.json()["detail"]
        # nothing that was refused has changed anything
        after = victims.state(stage.superuser_url, MALLORY)
        assert {table for table in after if after[table] != before[table]} <= {"api_keys"}
        for name, scope, sent in allowed:
            for call in sent:
                answer = call.by(holders[scope])
                assert answer.status_code not in REFUSED, f"{name} with {scope}: {answer.text}"
                assert answer.status_code < 500, answer.text
                assert SECRET not in answer.text, name
    stage.unharmed("keys with one scope")


def test_a_key_of_one_chat_reaches_what_names_that_chat_alone(stage: Stage, client: httpx.Client) -> None:
    before = victims.state(stage.superuser_url, MALLORY)
    allowed = []
    with holding(client, stage, chats=[OWN_CHAT]) as bound:
        for name, access, sent in walked(client, stage):
            for call in sent:
                if access.is_open or access.chat == "nowhere":
                    continue
                tried = [call, naming(call, OTHER_CHAT, name), naming(call, SHARED_CHAT, name)]
                own = naming(call, OWN_CHAT, name)
                if access.chat is None:
                    tried.append(own)
                elif own != call:
                    allowed.append((name, own))
                for each in tried:
                    answer = each.by(bound)
                    assert answer.status_code == 403, f"{name}: {answer.status_code} {answer.text}"
                    assert "only for some chats" in answer.json()["detail"]
        both = bound.get("/v1/sessions", params={"chat_id": [OWN_CHAT, OTHER_CHAT]})
        assert both.status_code == bound.get("/v1/sessions").status_code == 403
        after = victims.state(stage.superuser_url, MALLORY)
        assert {table for table in after if after[table] != before[table]} <= {"api_keys"}
        assert {name for name, _ in allowed} == {
            name.replace(":path}", "}")
            for name, access in ACCESS.items()
            if access.chat in {"path", "query", "body"}
        }
        for name, call in allowed:
            answer = call.by(bound)
            assert answer.status_code not in REFUSED, f"{name}: {answer.text}"
            assert answer.status_code < 500, answer.text
            # nor is another chat suggested
            assert OTHER_CHAT not in answer.text, name
    stage.unharmed("a key of one chat")


def test_a_tool_reaches_what_its_route_does(stage: Stage, client: httpx.Client) -> None:
    """The same walk through the tools for language models, generated from the same table."""
    sent = [call for call in calls(Caller(stage, THEMES[0]), "post", "/mcp", []) if tool_of(call) in TOOLS]
    assert {tool_of(call) for call in sent} == set(TOOLS)
    with contextlib.ExitStack() as stack:
        holders = {scope: stack.enter_context(holding(client, stage, scopes=[scope])) for scope in SCOPES}
        bound = stack.enter_context(holding(client, stage, chats=[OWN_CHAT]))
        stranger = stack.enter_context(holding(client, stage, tenant="somebody-else"))
        for call in sent:
            name, access = tool_of(call), ACCESS[TOOLS[tool_of(call)].route]
            # only the scope of the route calls the tool
            for scope, holder in holders.items():
                refused = f"scope `{access.scope}`" in told(call, holder)
                assert refused == (scope != access.scope), f"{name} with {scope}"
            # only a chat of the key is named, and what is about no chat is refused
            for chat in (OWN_CHAT, OTHER_CHAT, SHARED_CHAT):
                refused = "only for some chats" in told(naming_in_tool(call, chat), bound)
                assert refused == (access.chat is None or chat != OWN_CHAT), f"{name} about {chat}"
            assert SECRET not in told(call, stranger), name
        # and what is listed is what may be called
        for scope, holder in holders.items():
            tools = {name for name, tool in TOOLS.items() if ACCESS[tool.route].scope == scope}
            assert listed(holder) == tools
        assert listed(bound) == {name for name, tool in TOOLS.items() if ACCESS[tool.route].chat is not None}
    stage.unharmed("tools")


def tool_of(call: Call) -> str:
    assert call.body is not None
    return str(call.body.get("params", {}).get("name"))


def naming_in_tool(call: Call, chat: str) -> Call:
    """The same call of a tool about another chat, wherever it may name one."""
    assert call.body is not None
    params = call.body["params"]
    return replace(
        call, body=call.body | {"params": params | {"arguments": about(params["arguments"], chat)}}
    )


def told(call: Call, client: httpx.Client) -> str:
    """What a tool answers."""
    answer = call.by(client)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["result"]["content"][0]["text"])


def listed(client: httpx.Client) -> set[str]:
    answer = Call("post", "/mcp", {}, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).by(client)
    return {tool["name"] for tool in answer.json()["result"]["tools"]}


def test_a_key_of_one_chat_reads_no_session_of_another_by_its_number(
    stage: Stage, client: httpx.Client
) -> None:
    for session in client.get("/v1/sessions", params={"chat_id": SHARED_CHAT}).json()["sessions"]:
        with holding(client, stage, chats=[OWN_CHAT, "mallory:past"]) as bound:
            for path, more in (("/v1/more", {}), ("/v1/search", {"query": "lighthouse"})):
                asked = {"chat_id": "mallory:past", "session_id": session["id"]} | more
                answer = bound.post(path, json=asked)
                assert answer.status_code in {404, 200}
                assert "lighthouse, number" not in answer.text


def test_a_route_without_a_scope_cannot_be_built() -> None:
    router = APIRouter(route_class=ApiRoute)

    def get_secrets(tenant: Tenant) -> str:
        return tenant

    with pytest.raises(LookupError, match="GET /v1/secrets is not in ACCESS"):
        router.get("/v1/secrets")(get_secrets)
    # nor one whose chat nobody would look at
    with pytest.raises(LookupError, match="no Body that could name a chat"):
        router.post("/v1/search")(get_secrets)


def flat(router: Any) -> Iterator[Any]:
    """What a router serves that is no `ApiRoute`, at any depth."""
    for route in router.routes:
        if included := getattr(route, "original_router", None):
            yield from flat(included)
        elif not isinstance(route, ApiRoute):
            yield route


def test_nothing_is_served_beside_the_table_but_the_description(stage: Stage) -> None:
    served_beside = {str(getattr(route, "path", route)) for route in flat(make_web_app(stage.settings))}
    assert served_beside == {"/docs", "/docs/assets", "/openapi.json"}
    # the platform proves itself at a source's URL
    open_routes = {name for name, access in ACCESS.items() if access.is_open and "{source_id}" not in name}
    login = {
        "GET /inspect/login",
        "POST /inspect/login",
        "POST /inspect/logout",
        "GET /inspect/assets/{name}",
    }
    assert open_routes == {"GET /healthz", "GET /readyz", *login}
    assert all(access == OPEN or access.scope or access.chat == "nowhere" for access in ACCESS.values())


def test_every_text_of_the_victim_holds_the_secret_in_every_table(stage: Stage) -> None:
    assert [table for table in OF_TENANTS if not stage.known.rows[table]] == []
    with psycopg.connect(stage.superuser_url) as connection:
        for table, column, _ in victims.texts(connection):
            statement = f"SELECT count(*) FROM {table} WHERE tenant_id = %s AND {column}::text LIKE %s"
            found = connection.execute(statement, [VICTIM, f"%{SECRET}%"]).fetchone()  # type: ignore[arg-type]
            assert found[0], f"{table}.{column}"
    # and a change of its rows would be seen
    assert stage.before == victims.state(stage.superuser_url)
    assert stage.before["messages"] != victims.state(stage.superuser_url, "mallory")["messages"]


def test_whoever_serves_all_tenants_reads_nothing_that_people_wrote(stage: Stage) -> None:
    with psycopg.connect(stage.superuser_url) as connection:
        readable = {
            f"{table}.{column}"
            for table, column, _ in victims.texts(connection)
            for row in connection.execute(
                "SELECT has_column_privilege('backscroll_maintenance', %s, %s, 'SELECT')", [table, column]
            )
            if row[0]
        }
    # only how work is going
    work = {"arrivals", "backfills", "jobs", "refused_payloads"}
    errors = {f"{table}.error" for table in work} | {"jobs.last_error"}
    of_backfills = {f"backfills.{column}" for column in ("cursor", "filter", "started_by")}
    assert readable <= errors | of_backfills | {"tenants.settings"}
