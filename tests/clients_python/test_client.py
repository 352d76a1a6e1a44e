"""What a bot does with the client, against a real HTTP API."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from backscroll_client import (
    ApiFailed,
    AsyncBackscroll,
    Backscroll,
    BufferUnusable,
    Forbidden,
    KeyRefused,
    Message,
    NotFound,
    Refused,
    Unavailable,
)

from tests.apart import packages
from tests.clients_python.conftest import BOILER, CHAT


def said(number: int, content: str = BOILER, **fields: Any) -> Message:
    message: Message = {"external_id": str(number), "sender_id": "telegram:13", "content": content}
    message |= {"sender_name": "Maren", "sent_at": 1777300000 + number}
    return message | fields  # type: ignore[return-value]


def contents(memory: Backscroll, chat: str = CHAT) -> list[str]:
    return [message["content"] for message in memory.latest(chat, limit=1000)]


def test_what_a_bot_sees_is_handed_over_changed_and_found_again(memory: Backscroll) -> None:
    # Given messages of a chat, of which one is sent twice, one edited and one deleted
    assert memory.add({"chat_id": CHAT, "title": "Harbour House"}, said(1), said(2, "Ο λέβητας")) is True
    assert memory.add(CHAT, said(1), said(3, "wrong chat, sorry", thread="7")) is True
    memory.edit(CHAT, "2", "Ο λέβητας είναι 19 ετών")
    memory.delete(CHAT, "3")
    # Then the chat holds what the platform shows
    assert contents(memory) == [BOILER, "Ο λέβητας είναι 19 ετών"]
    assert [m["sender_name"] for m in memory.latest(CHAT, limit=1)] == ["Maren"]
    # and what is asked for is found
    assert memory.search(CHAT, "boiler")["hits"][0]["text"] == BOILER
    found = memory.context(CHAT, "When does the new boiler come?")
    messages = found.messages
    # with how surely it answers
    assert found.evidence in {"strong", "weak"}
    assert 0 < found.evidence_probability < 1
    assert BOILER in "\n".join(message["content"] for message in messages[:-1])
    assert "When does the new boiler come?" in messages[-1]["content"]
    assert "19 ετών" in memory.context(CHAT, "Πόσων ετών είναι ο λέβητας;", budget_tokens=400).text
    # and a statement, until its user is forgotten
    assert memory.remember("Maren hates boilers.", user_id="telegram:13")["outcome"] == "new"
    assert [m["content"] for m in memory.about("telegram:13")["current"]] == ["Maren hates boilers."]
    assert memory.forget_user("telegram:13")["seen"] is True
    # and ids with slashes name the message that they are of
    chat = "matrix:!räume/7?x=1#y"
    memory.add(chat, {"external_id": "$a/b%2F", "sender_id": "matrix:@a", "content": "да"})
    memory.edit(chat, "$a/b%2F", "нет")
    assert contents(memory, chat) == ["нет"]


def test_the_same_for_asyncio(url: str) -> None:
    async def story() -> tuple[list[str], str]:
        async with AsyncBackscroll() as memory:
            await asyncio.gather(*(memory.add(CHAT, said(number, f"n° {number}")) for number in range(20)))
            context = await memory.context(CHAT, "Which number was last?")
            return [m["content"] for m in await memory.latest(CHAT)], context.text

    listed, text = asyncio.run(story())
    assert listed == [f"n° {number}" for number in range(20)]
    assert "n° 19" in text


def test_an_error_says_what_the_api_said(
    api: httpx.Client, url: str, memory: Backscroll, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=r"sent_at.*no time zone") as refused:
        memory.add(CHAT, said(1, sent_at="2026-05-04T18:00:00"))
    assert refused.value.field == "messages.0.sent_at"
    # of several that a buffer sends, the one that is wrong, and those beside it are there
    with (
        Backscroll(buffer=tmp_path / "buffer") as buffered,
        pytest.raises(Refused, match=r"messages\.1\.sender_id") as refused,
    ):
        buffered.add(CHAT, said(4), said(5, sender_id=""))
    assert refused.value.field == "messages.1.sender_id"
    assert contents(memory) == [BOILER]
    with pytest.raises(NotFound, match="no chat telegram:никто"):
        memory.context("telegram:никто", "Who is there?")
    with Backscroll(api_key="wrong") as stranger, pytest.raises(KeyRefused, match="unknown here"):
        stranger.context(CHAT, "Who is there?")
    scoped = {"label": "bot", "scopes": ["ingest"], "chats": ["telegram:1"]}
    limited = Backscroll(api_key=api.post("/v1/keys", json=scoped).json()["key"])
    with limited, pytest.raises(Forbidden, match="only for some chats"):
        limited.add(CHAT, said(2, "тоже"))
    # the URL of something else, which a Backscroll answers
    with (
        Backscroll(f"{url}/v0", patience=0) as elsewhere,
        pytest.raises(ApiFailed, match="Is the URL right"),
    ):
        elsewhere.latest(CHAT)
    with (
        Backscroll("http://127.0.0.1:9", patience=0) as away,
        pytest.raises(Unavailable, match="does not answer"),
    ):
        away.add(CHAT, said(1))


def test_what_no_request_can_hold_is_refused_at_once(tmp_path: Path) -> None:
    with Backscroll("http://127.0.0.1:9", " key\n", buffer=tmp_path / "buffer") as memory:
        for unsent in ("", ".", "..", "x" * 70_000):
            with pytest.raises(Refused, match="is no id"):
                memory.edit(CHAT, unsent, "boiler")
        assert memory.waiting == 0
    for url, key in (
        ("http://[::", "key"),
        ("localhost:8420", "key"),
        ("http://127.0.0.1:9", "k\ney"),
        ("", "ключ"),
    ):
        with pytest.raises(ValueError, match=r"not a URL|no key has"):
            Backscroll(url, key)


def test_a_buffer_is_of_one_client_and_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "buffer.sqlite"
    with Backscroll("http://127.0.0.1:9", "key", buffer=path, max_buffered=2) as memory:
        with pytest.raises(BufferUnusable, match=r"locked.* A client has it open"):
            Backscroll("http://127.0.0.1:9", "key", buffer=path)
        memory.add(CHAT, said(1))
        memory.delete(CHAT, "1")
        with pytest.raises(BufferUnusable, match="full: 2 requests"):
            memory.add(CHAT, said(3))
    assert os.listdir(tmp_path) == ["buffer.sqlite"]  # noqa: PTH208
    # only its owner reads what waits
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IRUSR | stat.S_IWUSR
    for unusable in (tmp_path, tmp_path / "buffer.sqlite" / "inside"):
        with pytest.raises(BufferUnusable, match="cannot be used"):
            Backscroll("http://127.0.0.1:9", "key", buffer=unusable)


GENERATOR = ("openapi-python-client==0.29.1", "ruamel.yaml==0.19.1")
# The export streams, which the generator has no word for.
LINES = {"application/x-ndjson": "application/octet-stream"}
STORY = f"""
import sys
from backscroll_generated.client import AuthenticatedClient
from backscroll_generated.api.messages import post_messages
from backscroll_generated.api.contexts import post_context, post_search
from backscroll_generated.api.overview import get_chat_messages
from backscroll_generated.models import *
import datetime
client = AuthenticatedClient(base_url=sys.argv[1], token="test-key", raise_on_unexpected_status=True)
at = datetime.datetime(2026, 4, 27, 18, 0, tzinfo=datetime.UTC)
message = MessageIn(external_id="1", sender_id="telegram:13", content={BOILER!r}, sent_at=at)
receipt = post_messages.sync(client=client, body=IngestPayload(chat={CHAT!r}, messages=[message]))
assert isinstance(receipt, MessagesReceipt), receipt
assert receipt.accepted == 1
context = post_context.sync(client=client, body=ContextQuery(chat_id={CHAT!r}, query="When does the new boiler come?"))
assert isinstance(context, Context), context
assert {BOILER!r} in context.text
found = post_search.sync(client=client, body=SearchQuery(chat_id={CHAT!r}, query="boiler"))
assert isinstance(found, SearchResult), found
assert found.hits[0].text == {BOILER!r}
listed = get_chat_messages.sync(client=client, chat_id={CHAT!r}, limit=5)
assert isinstance(listed, MessageList), listed
assert listed.messages[0].sent_at == at
unknown = post_context.sync(client=client, body=ContextQuery(chat_id="telegram:никто", query="Who?"))
assert isinstance(unknown, Problem), unknown
assert "no chat" in unknown.detail
"""


def test_a_client_generated_from_the_description_works_against_the_api(
    api: httpx.Client, tmp_path: Path
) -> None:
    described = api.get("/openapi.json").json()
    (tmp_path / "openapi.json").write_text(json.dumps(described))
    config = {"project_name_override": "generated", "package_name_override": "backscroll_generated"}
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"post_hooks": [], "content_type_overrides": LINES})
    )
    environment = os.environ | {"PYTHONPATH": str(packages(*GENERATOR))}
    made = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"),
            *("--path", "openapi.json", "--config", "config.json", "--output-path", "backscroll_generated"),
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    # every route is understood, and so is every answer
    assert "WARNING" not in made.stdout + made.stderr, made.stdout + made.stderr
    subprocess.run(
        [sys.executable, "-c", STORY, str(api.base_url).rstrip("/")], cwd=tmp_path, check=True, timeout=600
    )
