"""The buffer on disk: what is handed over while the API is away, in order, until it is committed."""

import json
import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backscroll_client.calls import ADD, Call
from backscroll_client.errors import BufferUnusable, Refused, Unavailable

MAX_BATCH = 500
"""Messages in one request; the API takes 1,000."""
MAX_BATCH_BYTES = 2 * 1024 * 1024
MAX_PAUSE_SECONDS = 30.0

_TABLE = """CREATE TABLE IF NOT EXISTS waiting (id INTEGER PRIMARY KEY AUTOINCREMENT,
    method TEXT NOT NULL, path TEXT NOT NULL, body BLOB NOT NULL, refusal TEXT)"""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The first waiting request, merged with those after it that add messages to the same chat."""

    numbers: list[int]
    call: Call[Any]


class Buffer:
    """A SQLite file that one client has for itself; what a killed process left is sent by the next."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path, self.limit = path, limit
        self.outage: Unavailable | None = None
        self._pause, self._rests_until = 0.0, 0.0
        path.parent.mkdir(parents=True, exist_ok=True)
        # it holds what people wrote
        path.touch(mode=0o600)
        self._rows = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            # without the lock a second client would send the same, in another order
            self._rows.executescript(
                "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
            )
            self._rows.execute("BEGIN EXCLUSIVE").execute(_TABLE).execute("COMMIT")
        except sqlite3.Error as error:
            self._rows.close()
            raise BufferUnusable(f"the buffer {os.fspath(path)} cannot be used: {error}") from None
        self.size: int = self._rows.execute("SELECT count(*) FROM waiting").fetchone()[0]

    def append(self, call: Call[Any]) -> int:
        """Write a request down; returns its number. Raises `BufferUnusable` when the buffer is full."""
        if self.size >= self.limit:
            raise BufferUnusable(
                f"the buffer {os.fspath(self.path)} is full: {self.size} requests wait for the API"
            )
        row = (call.method, call.path, call.body)
        number = self._rows.execute(
            "INSERT INTO waiting (method, path, body) VALUES (?, ?, ?)", row
        ).lastrowid
        self.size += 1
        assert number is not None  # noqa: S101 - it was inserted
        return number

    def first(self, most: int = MAX_BATCH) -> Batch | None:
        """Return the next request to send, merged from at most `most` rows; None: all are sent."""
        query = "SELECT id, method, path, body FROM waiting WHERE refusal IS NULL ORDER BY id LIMIT ?"
        rows = self._rows.execute(query, [most]).fetchall()
        if not rows:
            return None
        (number, method, path, body), *others = rows
        numbers = [number]
        if path == ADD and others:
            merged, size = json.loads(body), len(body)
            for number, _, other_path, other_body in others:
                other = json.loads(other_body) if other_path == ADD else {"chat": None}
                size += len(other_body)
                if other["chat"] != merged["chat"] or size > MAX_BATCH_BYTES:
                    break
                if len(merged["messages"]) + len(other["messages"]) > MAX_BATCH:
                    break
                merged["messages"] += other["messages"]
                numbers.append(number)
            body = json.dumps(merged).encode() if len(numbers) > 1 else body
        return Batch(numbers=numbers, call=Call(method=method, path=path, body=body, read=bool))

    def remove(self, numbers: list[int]) -> None:
        """Forget what is committed."""
        # they follow each other, except for what was refused before
        between = "id BETWEEN ? AND ? AND refusal IS NULL"
        removed = self._rows.execute(f"DELETE FROM waiting WHERE {between}", (numbers[0], numbers[-1]))  # noqa: S608
        self.size -= removed.rowcount
        self.outage, self._pause, self._rests_until = None, 0.0, 0.0

    def refuse(self, number: int, error: Exception) -> None:
        """Set a request aside that the API will never take, with the reason."""
        self._rows.execute("UPDATE waiting SET refusal = ? WHERE id = ?", (str(error), number))

    def is_sent(self, number: int) -> bool:
        """Return whether a request is committed. Raises `Refused`, and drops it, if the API will never take it."""
        row = self._rows.execute("SELECT refusal FROM waiting WHERE id = ?", [number]).fetchone()
        if row is None:
            return True
        if row[0] is None:
            return False
        self._rows.execute("DELETE FROM waiting WHERE id = ?", [number])
        self.size -= 1
        raise Refused(row[0])

    def rest(self, outage: Unavailable) -> None:
        """Note that the API is away: for a while it is not asked with every message."""
        self.outage = outage
        self._pause = min(max(0.25, 2 * self._pause), MAX_PAUSE_SECONDS)
        self._rests_until = time.monotonic() + max(self._pause, outage.retry_after or 0)

    def is_resting(self) -> bool:
        """Return whether it is too early to ask the API again."""
        return time.monotonic() < self._rests_until

    def close(self) -> None:
        """Close the file; what waits stays in it."""
        self._rows.close()
