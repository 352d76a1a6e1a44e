"""`backscroll mcp`: what its user is told where it finds no API, and that its output is the protocol alone."""

import json
import subprocess
from pathlib import Path

import httpx

from ops.local.embedded.ports import free_port
from tests.mcp.conftest import over_stdio, talk, text_of, url_of
from tests.ops.running import COMMAND, clean_environment


def test_an_api_that_is_away_is_told_to_the_model() -> None:
    (answer,) = talk(over_stdio(f"http://127.0.0.1:{free_port()}"), ("chats", {}))
    assert answer.is_error
    assert "does not answer" in text_of(answer)


def test_it_prints_nothing_but_messages_and_ends_with_its_input(house: httpx.Client, tmp_path: Path) -> None:
    # Given a client of 2025 that says hello, calls a tool and leaves
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "猫", "version": "1"},
    }
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
    rest, errors = running.communicate()
    assert (rest, errors, running.returncode) == (b"", b"", 0)
