"""What a language model relies on: each tool over both transports, and sentences where something is wrong."""

import copy
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents.strict_schema import ensure_strict_json_schema
from jsonschema import validate

from schemas.settings import Settings
from tests.api.conftest import problem_of, served
from tests.mcp.conftest import HOUSE, listed, over_http, over_stdio, talk, text_of, url_of
from tests.ops.running import COMMAND, clean_environment
from tests.waiting import SECONDS, until

READING = {"digest", "recall", "search", "read", "about", "chats"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_each_tool_does_what_it_says_in_every_script(house: httpx.Client, mode: str) -> None:
    opens = over_http(url_of(house), mode=mode)
    # Given what is known of Боб, and what he asks to keep
    written = house.post(
        "/v1/memories",
        json={"scope": "user", "user_id": "test:bob", "content": "Боб живёт в Порту.", "learned_in": HOUSE},
    ).json()["id"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"chat_id": HOUSE, "query": "Какую ошибку показывает котёл?", "user_id": "test:bob"}),
        ("search", {"chat_id": HOUSE, "query": "锅炉", "mode": "exact"}),
        ("about", {"user_id": "боб", "chat_id": HOUSE}),
        ("chats", {}),
        ("remember", {"content": "القطة اسمها سردينة.", "scope": "organization", "learned_in": HOUSE}),
        ("correct", {"memory_id": written, "content": "Боб живёт в Браге."}),
        ("about", {"user_id": "test:bob"}),
    ]
    # When a model calls them
    recalled, found, about, chats, kept, corrected, after = answers = talk(opens, *calls)
    # Then each says who said what and when, with the ids that other tools take
    assert not any(answer.is_error for answer in answers), [text_of(answer) for answer in answers]
    assert "Ann: Котёл показывает ошибку E41" in text_of(recalled)
    # how surely it answers comes first
    judged = recalled.structured_content["evidence"]
    assert text_of(recalled).startswith(f"Evidence: {judged} (")
    (hit,) = found.structured_content["hits"]
    line = (
        f"- [id {hit['id']}, session_id {hit['session_id']}] 2026-03-02T18:01:00Z Боб: 我们星期一修理锅炉。"
    )
    assert line in text_of(found).splitlines()
    (known,) = (line for line in text_of(about).splitlines() if line.endswith(": Боб живёт в Порту."))
    assert known.startswith(f"- [id {written}, learned_in {HOUSE}] ")
    assert about.structured_content["user_id"] == "test:bob"
    assert f"- [chat_id {HOUSE}, kind group] 2026-03-02T18:02:00Z: Дом" in text_of(chats).splitlines()
    assert kept.structured_content["outcome"] == "new"
    (now,) = after.structured_content["current"]
    assert (now["content"], now["id"]) == ("Боб живёт в Браге.", corrected.structured_content["id"])
    assert written in [memory["id"] for memory in after.structured_content["earlier"]]
    # And what was answered is what the list promises
    promised = {tool.name: tool.output_schema for tool in listed(opens)}
    for (name, _), answer in zip(calls, answers, strict=True):
        assert promised[name] is not None
        validate(answer.structured_content, promised[name])
    # And what is read and forgotten, too
    read, forgotten, gone, *_ = talk(
        opens,
        ("read", {"chat_id": HOUSE, "session_id": hit["session_id"], "shown": [int(hit["id"])]}),
        ("forget", {"memory_id": kept.structured_content["id"]}),
        ("forget", {"memory_id": kept.structured_content["id"]}),
        *(("forget", {"memory_id": each}) for each in (now["id"], written)),
    )
    assert [line["speaker"] for line in read.structured_content["messages"]] == ["Ann", "Ann"]
    assert f"outcome: deleted\nid: {kept.structured_content['id']}" in text_of(forgotten)
    assert gone.is_error


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("recal", {}, "there is no tool recal, did you mean recall?"),
        ("recall", {"query": "x"}, "chat_id is missing"),
        ("recall", {"chat_id": HOUSE, "query": "x" * 8001}, "query: must have at most 8000 characters"),
        ("search", {"chat_id": HOUSE, "query": "x", "Limit": 3}, "did you mean limit?"),
        (
            "remember",
            {"content": "x", "scope": "user", "chat_id": HOUSE},
            "learned_in (chat_id where it was said)",
        ),
        ("search", {"chat_id": "test:nowhere", "query": "x"}, "there is no chat test:nowhere"),
        ("correct", {"memory_id": "../../v1/chats/test:house"}, "memory_id: "),
        ("forget", {"memory_id": "01a21bfd-00f6-7c50-9070-108ccbac916b"}, "there is no memory"),
    ],
)
def test_what_is_wrong_is_a_sentence_for_the_model(
    house: httpx.Client, name: str, given: dict[str, Any], sentence: str
) -> None:
    (answer,) = talk(over_http(url_of(house)), (name, given))
    assert answer.is_error
    assert sentence in text_of(answer)
    assert "Traceback" not in text_of(answer)


def test_two_people_of_one_name_are_told_apart(house: httpx.Client) -> None:
    for sender in ("test:ann", "test:other-ann"):
        message = {"external_id": sender, "sender_id": sender, "sender_name": "Ann", "content": "Hi"}
        sent = {"chat": "test:anns", "messages": [message | {"sent_at": "2026-03-02T18:00:00Z"}]}
        house.post("/v1/messages", json=sent)
    (by_name,) = talk(over_http(url_of(house)), ("about", {"user_id": "ann", "chat_id": "test:anns"}))
    assert by_name.is_error
    assert "test:ann, test:other-ann" in text_of(by_name)


GEMINI = {"type", "description", "enum", "items", "properties", "required", "format", "minimum", "maximum"}
GEMINI_TYPES = {"string", "integer", "number", "boolean", "array", "object"}


def problems_for_gemini(schema: Any, where: str) -> list[str]:
    """What Gemini and Vertex refuse: https://ai.google.dev/api/caching#Schema."""
    found = [f"{where}: {key}" for key in schema.keys() - GEMINI]
    kind, values = schema.get("type"), schema.get("enum")
    if not isinstance(kind, str) or kind not in GEMINI_TYPES:
        return [*found, f"{where}: type {kind}"]
    if values is not None and (kind != "string" or not values or not all(values)):
        found.append(f"{where}: enum")
    if (kind == "object") != ("properties" in schema) or (kind == "array") != ("items" in schema):
        found.append(f"{where}: {kind} holds the wrong things")
    properties = schema.get("properties", {})
    found += [f"{where}: {name}" for name in properties if not re.fullmatch(r"[a-z_][a-z0-9_]{0,63}", name)]
    if not set(schema.get("required", ())) <= properties.keys():
        found.append(f"{where}: required")
    inner = properties | ({"[]": schema["items"]} if "items" in schema else {})
    return found + [
        one for name, part in inner.items() for one in problems_for_gemini(part, f"{where}.{name}")
    ]


def test_every_provider_takes_the_tools_and_every_argument_is_described(house: httpx.Client) -> None:
    some_chats = over_http(url_of(house), key=key(house, *SCOPES, chats=[HOUSE]))
    for tool in [*listed(over_http(url_of(house))), *listed(some_chats)]:
        assert re.fullmatch(r"[a-z_][a-z0-9_]{0,63}", tool.name)
        assert problems_for_gemini(tool.input_schema, tool.name) == []
        assert problems_for_gemini(tool.output_schema, tool.name) == []
        for name, argument in tool.input_schema["properties"].items():
            assert argument["description"], (tool.name, name)
        # OpenAI's own library makes it strict, and then a model fills in everything
        strict = ensure_strict_json_schema(copy.deepcopy(tool.input_schema))
        assert strict["additionalProperties"] is False
    full = {"mode": "exact", "since": "", "until": "", "limit": 3}
    (found,) = talk(over_http(url_of(house)), ("search", {"chat_id": HOUSE, "query": "锅炉", **full}))
    assert "我们星期一修理锅炉" in text_of(found)


def test_a_slash_at_the_end_of_the_address_changes_nothing(house: httpx.Client) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "chats", "arguments": {}}}
    for path in ("/mcp", "/mcp/"):
        answer = house.post(path, json=call)
        assert answer.status_code == 200
        assert "Дом" in answer.json()["result"]["content"][0]["text"]


def test_people_are_called_as_they_are_called_in_the_chat(house: httpx.Client) -> None:
    # Given a chat of people with first and last names
    for n, name in enumerate(("Zoë Ågren", "Мария Лис", "Мария Волк", "王伟")):
        message = {"external_id": str(n), "sender_id": f"test:p{n}", "sender_name": name, "content": "Hej"}
        sent = message | {"sent_at": f"2026-03-0{n + 1}T18:00:00Z"}
        house.post("/v1/messages", json={"chat": "test:people", "messages": [sent]})
    said = {"chat_id": "test:people"}
    remember = {"content": "Zoë спит днём.", "scope": "user"}
    first, both, nobody, kept, phantom, nowhere, unknown = talk(
        over_http(url_of(house)),
        ("about", {"user_id": "zoë"} | said),
        ("about", {"user_id": "Мария"} | said),
        ("about", {"user_id": "Ludvig"} | said),
        ("remember", remember | {"user_id": "Zoë", "learned_in": "test:people"}),
        ("remember", remember | {"user_id": "Ludvig", "learned_in": "test:people"}),
        ("remember", remember | {"user_id": "Zoë"}),
        ("about", {"user_id": "Ludvig"}),
    )
    # Then a first name is enough where it is one person's, and else the answer says who is there
    assert first.structured_content["user_id"] == "test:p0"
    assert "test:p1, test:p2" in text_of(both)
    assert "王伟 (test:p3)" in text_of(nobody)
    assert kept.structured_content["outcome"] == "new"
    (known,) = talk(over_http(url_of(house)), ("about", {"user_id": "test:p0"}))
    assert "Zoë спит днём." in text_of(known)
    # and nobody is made up
    assert phantom.is_error
    assert "王伟 (test:p3)" in text_of(phantom)
    assert nowhere.is_error
    assert unknown.is_error
    assert "Ludvig is no known id" in text_of(unknown)


def test_dates_are_those_of_the_chat_and_chats_come_by_last_activity(house: httpx.Client) -> None:
    # Given a chat in Bogotá, where it is still the second of March
    late = {"external_id": "1", "sender_id": "test:eva", "content": "¿Quién cierra hoy?"}
    chat = {"chat_id": "test:bogota", "time_zone": "America/Bogota"}
    house.post(
        "/v1/messages", json={"chat": chat, "messages": [late | {"sent_at": "2026-03-02T22:30:00-05:00"}]}
    )
    asked = {"chat_id": "test:bogota", "query": "cierra", "mode": "exact"}

    def hits() -> list[int]:
        spans = ({"since": "2026-03-02", "until": "2026-03-03"}, {"since": "2026-03-03T00:00"})
        found = talk(over_http(url_of(house)), *(("search", asked | span) for span in spans))
        assert not any(answer.is_error for answer in found), [text_of(answer) for answer in found]
        return [len(answer.structured_content["hits"]) for answer in found]

    # Then a date without an offset is that of its clock
    until(lambda: hits() == [1, 0], "it is found on its own day")
    # and the latest active chats come first, page by page
    every = [each["chat_id"] for each in house.get("/v1/chats", params={"order": "latest"}).json()["chats"]]
    (first, *_) = every
    rest = house.get("/v1/chats", params={"order": "latest", "after": first}).json()["chats"]
    assert [each["chat_id"] for each in rest] == every[1:]


def test_hints_say_what_changes_and_what_destroys(house: httpx.Client) -> None:
    tools = listed(over_http(url_of(house)))
    hints = {tool.name: tool.annotations for tool in tools}
    assert {name for name, hint in hints.items() if hint and hint.read_only_hint} == READING
    assert {name for name, hint in hints.items() if hint and hint.destructive_hint} == {"correct", "forget"}
    # and what clients hand on of the list costs a model at most 1,020 tokens
    bpe = pytest.importorskip("bpe_openai", reason="the extra `tokens` is not installed")
    sent = json.dumps(
        [{"name": t.name, "description": t.description, "inputSchema": t.input_schema} for t in tools]
    )
    assert len(tools) == 9
    assert len(bpe.get_encoding("o200k_base").encode(sent)) <= 1020


ODD: list[Any] = [None, 1e400, "../keys", "\x00", "\ud800", "x" * 100_000, {"a": {"a": [1]}}]
TAKES = {
    "recall": ["chat_id", "query", "user_id", "as_of", "profile", "budget_tokens"],
    "search": ["chat_id", "query", "mode", "since", "until", "limit"],
    "read": ["chat_id", "session_id", "shown", "limit"],
    "about": ["user_id", "chat_id"],
    "chats": ["after"],
    "remember": ["content", "scope", "user_id", "learned_in"],
    "correct": ["memory_id", "content"],
    "forget": ["memory_id"],
    "нет такого": ["猫"],
}
RIGHT = {"chat_id": HOUSE, "query": "котёл", "session_id": 1, "scope": "organization", "user_id": "test:ann"}


def sent(client: httpx.Client, body: bytes, **headers: str) -> httpx.Response:
    return client.post("/mcp", content=body, headers={"Content-Type": "application/json"} | headers)


def test_odd_arguments_are_answered_in_words(house: httpx.Client) -> None:
    for name, argument in [(name, each) for name, arguments in TAKES.items() for each in arguments]:
        for odd in ODD:
            given = {each: RIGHT[each] for each in TAKES[name] if each in RIGHT} | {argument: odd}
            call = {"name": name, "arguments": given}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
            answer = sent(house, body.encode())
            # a lone surrogate is no JSON for the protocol
            assert answer.status_code == (400 if odd == "\ud800" else 200), (given, answer.text)
            if answer.status_code == 200:
                result = answer.json()["result"]
                text = result["content"][0]["text"]
                assert text, given
                assert not any(word in text for word in ("Traceback", "defect", "Internal")), (given, text)


def test_what_is_no_message_is_refused(house: httpx.Client) -> None:
    for version in ("2025-06-18", "1999-01-01"):
        for body in (b"", b"null", b"\xff", b"[" * 5000, b'{"jsonrpc":"2.0"}', b'"' + b"x" * 10**6):
            answer = sent(house, body, **{"MCP-Protocol-Version": version})
            assert answer.status_code in {400, 202}, body[:10]
            assert "Traceback" not in answer.text


def test_it_prints_nothing_but_messages_and_ends_with_its_input(house: httpx.Client, tmp_path: Path) -> None:
    # Given a client of 2025 that says hello, calls a tool and leaves
    who = {"name": "猫", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "chats", "arguments": {}}},
    ]
    running = subprocess.Popen(
        [*COMMAND, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=clean_environment(BACKSCROLL_URL=url_of(house), BACKSCROLL_API_KEY="test-key"),
    )
    assert running.stdin
    assert running.stdout
    running.stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))
    running.stdin.flush()
    # Then it answers each, says when it is for, and ends
    welcome, chats = (json.loads(running.stdout.readline())["result"] for _ in range(2))
    assert "Call `recall` before you answer" in welcome["instructions"]
    assert "Дом" in chats["content"][0]["text"]
    rest, errors = running.communicate(timeout=SECONDS)
    assert (rest, errors, running.returncode) == (b"", b"", 0)


SCOPES = ("context", "read", "write", "erase")
RECALL = {"chat_id": HOUSE, "query": "котёл"}


def key(client: httpx.Client, *scopes: str, **limits: Any) -> str:
    """The secret of a new key."""
    made = client.post("/v1/keys", json={"label": "a model", "scopes": scopes} | limits)
    return str(made.json()["key"])


def test_without_a_key_that_is_known_nothing_is_answered(house: httpx.Client) -> None:
    # over HTTP before the body is read, without an invitation to OAuth
    for headers in ({"Authorization": "Bearer wrong"}, {"Authorization": ""}):
        answer = house.post("/mcp", content=b"{", headers=headers)
        problem_of(answer, 401)
        assert answer.headers["www-authenticate"] == 'Bearer realm="backscroll"'
    # over stdio in words
    (refused,) = talk(over_stdio(url_of(house), key="wrong"), ("chats", {}))
    assert "unknown here, has expired or was revoked" in text_of(refused)


def test_a_key_for_some_chats_is_told_which(house: httpx.Client) -> None:
    # Given a key with every scope, for one chat
    opens = over_http(url_of(house), key=key(house, *SCOPES, chats=[HOUSE]))
    # Then the tools are those that are about a chat, and name it
    tools = {tool.name: tool.input_schema["properties"]["chat_id"] for tool in listed(opens)}
    named = {"type": "string", "description": "Id of the chat", "enum": [HOUSE]}
    assert tools == dict.fromkeys(("recall", "digest", "search", "read"), named)
    # And they answer about it
    (recalled,) = talk(opens, ("recall", RECALL | {"profile": "contextual"}))
    assert "E41" in text_of(recalled)


def test_two_replicas_serve_one_client_by_turns(house: httpx.Client, settings: Settings) -> None:
    # Given a second replica on the same database, and a client whose requests go to each in turn
    with served(settings) as other:
        opens = over_http(url_of(house), url_of(other))
        # When it remembers with one and asks the other, again and again
        notes = [{"content": f"Заметка {n}: 猫", "scope": "organization"} for n in range(4)]
        made = talk(opens, *(("remember", note) for note in notes))
        ids = [answer.structured_content["id"] for answer in made]
        # Then each knows what the other has done
        gone = talk(opens, *(("forget", {"memory_id": each}) for each in ids))
        assert not any(answer.is_error for answer in gone)


def test_a_call_counts_as_one_request_of_the_key(house: httpx.Client) -> None:
    # Given a key that may make a request every ten seconds, which calls a tool twice
    limited = {"Authorization": f"Bearer {key(house, 'context', 'read', requests_per_second=0.1)}"}
    params = {"name": "recall", "arguments": RECALL}
    called = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer, next_answer = (house.post("/mcp", json=called, headers=limited) for _ in range(2))
    # Then the first call is answered, and the next one is refused
    assert "E41" in answer.json()["result"]["content"][0]["text"]
    problem_of(next_answer, 429)
