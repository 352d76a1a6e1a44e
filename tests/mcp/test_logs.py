"""What an operator finds in the log of tools: their requests under one id, and nothing of what people wrote or are."""

import time
from pathlib import Path

import httpx

from ops.local.embedded.ports import free_port
from schemas.settings import Settings
from tests.api.test_process import environment, records, start
from tests.mcp.conftest import HOUSE, over_http, talk


def test_calls_are_logged_under_the_id_of_their_request_without_ids_of_people(
    settings: Settings, tmp_path: Path
) -> None:
    # Given an API as a process of its own
    port, log = free_port(), tmp_path / "api.log"
    url = f"http://127.0.0.1:{port}"
    process = start(port, environment(settings), log)
    try:
        while True:
            assert process.poll() is None, log.read_text()
            try:
                httpx.get(f"{url}/healthz")
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        # When a model calls tools, and one call has an id
        talk(
            over_http(url),
            ("about", {"user_id": "секрет:Ørjan-private", "chat_id": HOUSE}),
            ("search", {"chat_id": HOUSE, "query": "private 锅炉"}),
            ("remember", {"scope": "user", "user_id": "x:private", "content": ["private"]}),
        )
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "chats"}}
        key = {"Authorization": "Bearer test-key", "X-Request-ID": "r-1"}
        assert httpx.post(f"{url}/mcp", json=call, headers=key).status_code == 200
    finally:
        process.terminate()
        process.wait()
    # Then the request and the route that it called have that id
    found = [each["path"] for each in records(log) if each.get("request_id") == "r-1"]
    assert sorted(found) == ["/mcp", "/v1/chats"]
    # And no line holds a word of the calls, an id of a person or the key
    told = log.read_text()
    assert not any(word in told for word in ("private", "锅炉", HOUSE, "test-key"))
    assert not any(
        "mcp" in each.get("logger", "") or "httpx" in each.get("logger", "") for each in records(log)
    )
