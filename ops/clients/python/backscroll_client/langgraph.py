"""LangGraph: a store of items, each of which is a memory.

An item is a memory of the agent `agent_id`, shown to that agent alone; of a namespace for which `user_of` names a user
it is that user's, and forgotten with them. Its words are the memory's content, by which it is found; namespace, key and
value are the memory's metadata, of which the API takes 16 KiB.
"""

import asyncio
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
)

from backscroll_client.client import Backscroll
from backscroll_client.errors import NotFound, Refused

Namespace = tuple[str, ...]
OURS = "langgraph:"
"""Begins the source of a memory that is an item."""
MAX_SOURCE_CHARS = 240
"""The API takes 255."""
PAGE, MAX_FOUND = 500, 100
"""Memories in a list and found by a search, of the API."""
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class BackscrollStore(BaseStore):
    """Items under namespaces and keys; what `fields` of their values say is what they are found by.

    Items do not expire: `ttl` is refused. Without a query, and to list namespaces, all items are read, 500 at a time.
    """

    def __init__(
        self,
        memory: Backscroll,
        *,
        agent_id: str = "langgraph",
        user_of: Callable[[Namespace], str | None] = lambda namespace: None,
        fields: Sequence[str] = ("$",),
    ) -> None:
        self.memory, self.agent_id, self.user_of, self.fields = memory, agent_id, user_of, fields

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations: what is read is as it was before what is put; of several for one key the last is put."""
        results: list[Result] = []
        puts: dict[tuple[Namespace, str], PutOp] = {}
        for op in ops:
            match op:
                case GetOp():
                    found = self._at(op.namespace, op.key)
                    results.append(_item(found[0]) if found else None)
                case SearchOp():
                    results.append(self._search(op))
                case ListNamespacesOp():
                    results.append(self._namespaces(op))
                case PutOp():
                    if op.ttl is not None:
                        raise NotImplementedError("ttl: a Backscroll keeps items until they are deleted")
                    puts[op.namespace, op.key] = op
                    results.append(None)
                case _:
                    raise ValueError(f"{type(op).__name__} is no operation of a store")
        for put in puts.values():
            self._put(put)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _at(self, namespace: Namespace, key: str) -> list[dict[str, Any]]:
        """Return the memories of a key, the newest first: one, unless two wrote it at the same moment."""
        return self.memory.memories(agent_id=self.agent_id, source=_source(namespace, key))

    def _put(self, op: PutOp) -> None:
        kept = self._at(op.namespace, op.key)
        newest, others = (None, kept) if op.value is None or not kept else (kept[0], kept[1:])
        if op.value is not None:
            metadata = {
                "namespace": _labels(op.namespace),
                "key": op.key,
                "value": op.value,
                "updated_at": datetime.now(UTC).isoformat(),
            }
            self._write(newest, op, self._words(op), metadata)
        for memory in others:
            try:
                self.memory.delete_memory(memory["id"])
            except NotFound:
                # somebody else deleted it
                continue

    def _write(self, known: dict[str, Any] | None, op: PutOp, content: str, metadata: dict[str, Any]) -> None:
        source, user_id = _source(op.namespace, op.key), self.user_of(op.namespace)
        if known is not None and known["user_id"] == user_id:
            receipt = self.memory.edit_memory(known["id"], content=content, metadata=metadata)
        else:
            # by its document_id it is no other item's memory, though the words be the same
            more: dict[str, Any] = {"document_id": source, "source": source, "metadata": metadata}
            receipt = self.memory.remember(content, agent_id=self.agent_id, user_id=user_id, **more)
            if known is not None:
                self.memory.delete_memory(known["id"])
        if receipt["outcome"] == "kept_out":
            raise Refused(
                "it is not stored: memory is switched off, or its user was forgotten", field="value"
            )

    def _words(self, op: PutOp) -> str:
        """Return what an item is found by; its address where that is nothing."""
        value, fields = op.value or {}, self.fields if op.index is None else op.index or ()
        texts = [
            text
            for field in fields
            for text in (_lines(value) if field == "$" else get_text_at_path(value, tokenize_path(field)))
        ]
        return "\n".join(texts).strip() or "/".join([*op.namespace, op.key])

    def _search(self, op: SearchOp) -> list[SearchItem]:
        hits: list[dict[str, Any]] = []
        if op.query and op.query.strip():
            metadata: dict[str, Any] = {"namespace": _labels(op.namespace_prefix)}
            hits = self.memory.search_memories(
                op.query, limit=MAX_FOUND, agent_id=self.agent_id, metadata=metadata, fill=True
            )
        wanted, last = [], op.offset + op.limit
        for memory, score in self._ranked(hits, op):
            value = memory["metadata"]["value"]
            if all(_is_as(value.get(name), asked) for name, asked in (op.filter or {}).items()):
                wanted.append(SearchItem(**_fields(memory), score=score))
            if len(wanted) == last:
                break
        return wanted[op.offset : last]

    def _ranked(
        self, hits: list[dict[str, Any]], op: SearchOp
    ) -> Iterator[tuple[dict[str, Any], float | None]]:
        """Yield what was found, best first, then all others under the namespace."""
        prefix, seen = tuple(op.namespace_prefix), set()
        for hit in hits:
            if _is_ours(hit["memory"]):
                seen.add(hit["memory"]["source"])
                yield hit["memory"], hit["score"]
        for memory in self._all():
            if memory["source"] not in seen and _namespace(memory)[: len(prefix)] == prefix:
                yield memory, None

    def _all(self) -> Iterator[dict[str, Any]]:
        """Yield the memories that are items, the newest first, of each key the newest."""
        after, seen = None, set()
        while page := self.memory.memories(agent_id=self.agent_id, limit=PAGE, after=after):
            for memory in page:
                if _is_ours(memory) and memory["source"] not in seen:
                    seen.add(memory["source"])
                    yield memory
            after = page[-1]["id"]

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        found = {namespace for namespace in map(_namespace, self._all()) if _matches(namespace, conditions)}
        return sorted({namespace[: op.max_depth] for namespace in found})[op.offset : op.offset + op.limit]


def _source(namespace: Namespace, key: str) -> str:
    path = "/".join(quote(label, safe="") for label in (*namespace, key))
    return OURS + (path if len(path) <= MAX_SOURCE_CHARS else sha256(path.encode()).hexdigest())


def _is_ours(memory: dict[str, Any]) -> bool:
    return str(memory["source"]).startswith(OURS) and "value" in memory["metadata"]


def _labels(namespace: Namespace) -> dict[str, str]:
    """Return a namespace by its places, of which a prefix is a part: that is how metadata is searched."""
    return {str(place): label for place, label in enumerate(namespace)}


def _namespace(memory: dict[str, Any]) -> Namespace:
    labels = memory["metadata"]["namespace"]
    return tuple(labels[str(place)] for place in range(len(labels)))


def _fields(memory: dict[str, Any]) -> dict[str, Any]:
    metadata = memory["metadata"]
    return {
        "namespace": _namespace(memory),
        "key": metadata["key"],
        "value": metadata["value"],
        "created_at": datetime.fromisoformat(memory["created_at"]),
        "updated_at": datetime.fromisoformat(metadata["updated_at"]),
    }


def _item(memory: dict[str, Any]) -> Item:
    return Item(**_fields(memory))


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """Yield a line for each text, number … in a value, with its name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _lines(inner, name)
    elif value is not None:
        said = value if isinstance(value, str) else json.dumps(value, default=str)
        yield f"{name}: {said}"


def _is_as(value: Any, asked: Any) -> bool:
    """Tell whether a value is as a filter asks, as in LangGraph's own stores."""
    if isinstance(asked, dict):
        if any(str(name).startswith("$") for name in asked):
            if unknown := asked.keys() - COMPARE.keys():
                raise ValueError(f"filter: {', '.join(map(str, unknown))} is none of {', '.join(COMPARE)}")
            return all(_compares(name, value, other) for name, other in asked.items())
        return isinstance(value, dict) and all(
            _is_as(value.get(name), inner) for name, inner in asked.items()
        )
    return bool(value == (list(asked) if isinstance(asked, tuple) else asked))


def _compares(name: str, value: Any, other: Any) -> bool:
    try:
        return bool(COMPARE[name](value, other))
    except TypeError:
        # what is no number is neither more nor less than one
        return False


def _matches(namespace: Namespace, conditions: Iterable[MatchCondition]) -> bool:
    for condition in conditions:
        path, labels = condition.path, namespace
        if condition.match_type == "suffix":
            path, labels = path[::-1], labels[::-1]
        if len(labels) < len(path) or any(
            wanted not in ("*", label) for wanted, label in zip(path, labels, strict=False)
        ):
            return False
    return True
