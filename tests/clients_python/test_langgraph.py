"""LangGraph's store on a real HTTP API: what its documentation promises of every store, beside its own in memory."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from backscroll_client import Backscroll, Refused
from backscroll_client.langgraph import BackscrollStore
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.clients_python.conftest import BOILER, CHAT
from tests.harness.pipeline import forget_all

USERS, DOCS = ("users", "Мария"), ("docs", "家", "v1")
LONG = ("tenants", "a/b", "x" * 300)
ITEMS: list[tuple[tuple[str, ...], str, dict[str, Any]]] = [
    (USERS, "prefs", {"theme": "dark", "size": 12, "tags": ["a", "b"]}),
    (USERS, "theme", {"theme": "dark", "size": 3}),
    (("users", "علي"), "prefs", {"theme": "light", "size": 20.5, "where": {"city": "Lisboa", "zip": None}}),
    (DOCS, "a/b c", {"text": BOILER, "size": 12}),
    (LONG, "k" * 300, {"text": "long", "nested": {"a": [1, {"b": []}]}}),
]


@pytest.fixture
def store(memory: Backscroll) -> BackscrollStore:
    return BackscrollStore(memory)


@pytest.fixture
def both(store: BackscrollStore) -> Callable[[Callable[[BaseStore], Any]], None]:
    """Asserts that something comes to the same with LangGraph's own store."""
    own = InMemoryStore()

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return sorted(map(plain, value), key=repr)
        return (value.namespace, value.key, value.value) if hasattr(value, "namespace") else value

    def same(ask: Callable[[BaseStore], Any]) -> None:
        assert plain(ask(store)) == plain(ask(own))

    return same


def test_items_are_put_found_listed_and_deleted_as_in_langgraphs_own_store(both: Any) -> None:
    for namespace, key, value in ITEMS:
        both(lambda store, n=namespace, k=key, v=value: store.put(n, k, v))
    for namespace, key, _ in [*ITEMS, (USERS, "none", {})]:
        both(lambda store, n=namespace, k=key: store.get(n, k))
    for prefix in ((), ("users",), USERS, ("user",), ("docs", "家"), LONG):
        both(lambda store, p=prefix: store.search(p, limit=20))
    filters: list[dict[str, Any]] = [
        {"theme": "dark"},
        {"theme": "dark", "size": 3},
        {"size": {"$gte": 12}},
        {"size": {"$gt": 3, "$lt": 13}},
        {"size": {"$lte": 3}},
        {"theme": {"$eq": "light"}},
        {"theme": {"$ne": "dark"}},
        {"tags": ["a"]},
        {"tags": ["a", "b"]},
        {"where": {"city": "Lisboa"}},
        {"none": "x"},
    ]
    for wanted in filters:
        both(lambda store, w=wanted: store.search(("users",), filter=w))
    for conditions in (
        {},
        {"prefix": ("users",)},
        {"suffix": ("v1",)},
        {"prefix": ("*", "家")},
        {"max_depth": 1},
        {"limit": 2, "offset": 1},
    ):
        both(lambda store, c=conditions: store.list_namespaces(**c))
    both(lambda store: store.put(USERS, "prefs", {"theme": "hell"}))
    both(lambda store: store.get(USERS, "prefs"))
    both(lambda store: store.delete(USERS, "theme"))
    both(lambda store: store.delete(USERS, "never there"))
    both(lambda store: store.search((), limit=20))
    both(
        lambda store: store.batch(
            [GetOp(USERS, "new"), PutOp(USERS, "new", {"n": 1}), PutOp(USERS, "new", {"n": 2})]
        )
    )
    both(lambda store: store.get(USERS, "new"))


def test_an_item_says_when_it_was_made_and_changed(store: BackscrollStore) -> None:
    began = datetime.now(UTC)
    store.put(USERS, "prefs", {"theme": "dark"})
    store.put(USERS, "prefs", {"theme": "hell"})
    item = store.get(USERS, "prefs")
    assert item is not None
    assert item.value == {"theme": "hell"}
    assert began <= item.updated_at
    assert item.created_at <= item.updated_at
    # and the same words under two keys are two items
    for key in ("one", "two"):
        store.put(DOCS, key, {"text": "Same."})
    assert {item.key for item in store.search(DOCS)} == {"one", "two"}


def test_what_answers_a_question_comes_first_and_all_pages_are_whole(store: BackscrollStore) -> None:
    for number in range(12):
        store.put(DOCS, f"{number}", {"text": f"Кто кормил кота {number}?", "kind": "cat"})
    store.put(DOCS, "boiler", {"text": BOILER, "kind": "house"})
    store.put(("users",), "boiler", {"text": BOILER})
    hits = store.search(("docs",), query="When does the new boiler come?", limit=5)
    assert hits[0].key == "boiler"
    assert hits[0].score is not None
    assert len(hits) == 5
    pages = [store.search(DOCS, query="boiler", limit=5, offset=offset) for offset in (0, 5, 10, 15)]
    assert [len(page) for page in pages] == [5, 5, 3, 0]
    assert len({item.key for page in pages for item in page}) == 13
    assert [item.key for item in store.search(["docs"], filter={"kind": {"$gt": "cat"}})] == ["boiler"]  # type: ignore[arg-type]
    (cat, *_) = store.search(DOCS, query="boiler", filter={"kind": "cat"}, limit=1)
    assert cat.value["kind"] == "cat"
    # what is not to be found by its words is there all the same
    store.put(("quiet",), "k", {"text": BOILER}, index=False)
    (quiet,) = store.search(("quiet",), query="boiler")
    assert quiet.value == {"text": BOILER}
    (memory,) = (m for m in store.memory.memories(agent_id="langgraph") if m["metadata"]["key"] == "k")
    assert memory["content"] == "quiet/k"


def test_what_a_backscroll_cannot_keep_is_refused(store: BackscrollStore) -> None:
    with pytest.raises(NotImplementedError):
        store.put(USERS, "k", {"a": 1}, ttl=5)
    with pytest.raises(NotImplementedError, match="ttl"):
        store.batch([PutOp(USERS, "k", {"a": 1}, ttl=5)])
    with pytest.raises(Refused, match=r"metadata.*16384"):
        store.put(USERS, "k", {"a": "字" * 9000})
    with pytest.raises(InvalidNamespaceError):
        store.put(("a.b",), "k", {"a": 1})
    with pytest.raises(ValueError, match=r"\$like is none of"):
        store.put(USERS, "k", {"a": 1})
        store.search(USERS, filter={"a": {"$like": "x"}})
    assert store.search((), query="   ", limit=9)[0].key == "k"


def test_a_users_items_are_theirs_and_go_with_them(
    memory: Backscroll, database: Database, settings: Settings
) -> None:
    store = BackscrollStore(
        memory, user_of=lambda namespace: namespace[1] if namespace[0] == "users" else None
    )
    store.put(("users", "telegram:13"), "prefs", {"text": "Likes 茶"})
    store.put(("house",), "boiler", {"text": BOILER})
    assert "茶" in json.dumps(memory.about("telegram:13"), ensure_ascii=False)
    # what an agent keeps is in no context but that agent's
    memory.add(CHAT, {"sender_id": "telegram:12", "content": "Hei"})
    asked = {"chat_id": CHAT, "query": "When does the new boiler come?"}
    assert BOILER not in memory.context(**asked).text
    assert BOILER in memory.context(**asked, agent_id="langgraph").text
    # and a person who is forgotten takes theirs along
    memory.add(CHAT, {"sender_id": "telegram:13", "content": "moi"})
    memory.forget_user("telegram:13")
    forget_all(database)
    assert [item.key for item in store.search(())] == ["boiler"]
    with pytest.raises(Refused, match="forgotten"):
        store.put(("users", "telegram:13"), "prefs", {"text": "Likes 茶"})


def test_many_threads_and_tasks_use_one_store(store: BackscrollStore) -> None:
    async def story() -> None:
        await asyncio.gather(*(store.aput(("n",), str(number % 5), {"n": number}) for number in range(20)))
        assert sorted(item.key for item in await store.asearch(("n",))) == list("01234")
        assert await store.aget(("n",), "7") is None
        await store.adelete(("n",), "0")
        assert await store.alist_namespaces() == [("n",)]
        results = await store.abatch([GetOp(("n",), "1"), SearchOp(("n",), limit=2)])
        assert results[0] is not None
        assert len(results[1]) == 2  # type: ignore[arg-type]

    asyncio.run(story())
