"""The buffer on disk: what is handed over, in order for each chat, until it is committed or set aside; and its pace.

What an answer means for the requests that it answers, which the buffer merges where they add to the same chat:

========================================================= ============== ============================================
answer                                                    error          what becomes of them
========================================================= ============== ============================================
the receipt of this request, by its status and fields     none           committed: they are gone
400, 409 without `Retry-After`, 413, 422; 404 for a       Refused,       tried by halves; one alone is set aside with
thing that is not there; an event's receipt that names    NotFound       the reason, or told to its caller; those
what is `broken`                                                         behind it go on
403                                                       Forbidden      wait, and all behind them in their chat; the
                                                                         caller is told
401                                                       KeyRefused     all waits; the caller is told
no connection, no answer in time                          NoAnswer       all waits
anything else: 409 with `Retry-After`, 408, 429, 5xx,     Unavailable,   the first is tried alone, then the others by
redirects, a success that is no such receipt, any answer  ApiFailed      halves; one alone waits, and all behind it in
of another's, one that breaks off or cannot be read                      its chat; other chats go on
========================================================= ============== ============================================

Errors count as Backscroll's only as `application/problem+json` with a type of its own. What waits is tried again after
a pause (`Rest`), for ever; nothing but its own fault sets a request aside.
"""

import json
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from backscroll_client.calls import ADD, Call, change, each, lane_of
from backscroll_client.errors import (
    BackscrollError,
    BufferUnusable,
    KeyRefused,
    NoAnswer,
    Refused,
    Unavailable,
)
from backscroll_client.values import SetAside

MAX_BATCH = 500
"""Messages in one request; the API takes 1,000."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.25, 30.0
MAX_TOLD_SECONDS = 600.0
"""For which a `Retry-After` is believed: a limit may be lifted meanwhile."""


@dataclass
class Rest:
    """A pause until something is tried again, longer each time, and as long as the API says."""

    reason: BackscrollError | None = None
    until: float = 0.0
    told_until: float = 0.0
    _pause: float = 0.0

    def begin(self, reason: BackscrollError, now: float) -> None:
        """Rest for this reason."""
        told = reason.retry_after if isinstance(reason, Unavailable) else None
        self.reason, self._pause = reason, min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), MAX_PAUSE_SECONDS)
        self.told_until = now + min(told or 0.0, MAX_TOLD_SECONDS)
        self.until = max(now + self._pause, self.told_until)


@dataclass
class Lane:
    """The numbers of what waits for one chat, in order; the first `size` are tried together."""

    numbers: deque[int] = field(default_factory=deque)
    rest: Rest = field(default_factory=Rest)
    size: int = MAX_BATCH
    # so many at the head hold one at least that kept the others from being taken, or were too many
    _suspects: int = 0
    # how many may not be; 0: half of the suspects, as one is at fault
    _fitting: int = 0

    def committed(self, count: int) -> None:
        """Go on behind the first `count`."""
        for _ in range(count):
            self.numbers.popleft()
        self.rest, self._suspects = Rest(), max(0, self._suspects - count)
        if self._suspects:
            self.size = self._fitting or max(1, self._suspects // 2)
        else:
            self.size = min(2 * self.size, MAX_BATCH)

    def set_aside(self) -> None:
        """Go on behind the first, which was the one at fault."""
        self.numbers.popleft()
        self._suspects, self.size = 0, MAX_BATCH

    def failed(self, count: int, error: BackscrollError, now: float) -> bool:
        """Note that the first `count` were not taken together; return whether fewer of them are to be tried now."""
        half = max(1, count // 2)
        if isinstance(error, Refused):
            self._suspects, self._fitting, self.size = count, 0, half
            return True
        if isinstance(error, Unavailable) and not isinstance(error, NoAnswer) and count > 1:
            # alone, the first shows whether it is the API, or else their number or one of the others
            self._suspects, self._fitting, self.size = count, half, 1
            return True
        # what took too long together may be done in time by halves
        self._suspects, self.size = 0, half if isinstance(error, NoAnswer) else MAX_BATCH
        self.rest.begin(error, now)
        return False


MAX_BATCH_BYTES = 2 * 1024 * 1024

log = logging.getLogger("backscroll_client")

_TABLE = """CREATE TABLE IF NOT EXISTS waiting (id INTEGER PRIMARY KEY AUTOINCREMENT,
    method TEXT NOT NULL, path TEXT NOT NULL, body BLOB NOT NULL, refusal TEXT)"""
# numbers come as JSON, as a statement takes few parameters
_CHOSEN = "id IN (SELECT value FROM json_each(?))"
_ROWS = "SELECT id, method, path, body, refusal FROM waiting"
_INSERT = "INSERT INTO waiting (method, path, body) VALUES (?, ?, ?)"
_NEXT = f"{_ROWS} WHERE {_CHOSEN} ORDER BY id"
_AGAIN = f"UPDATE waiting SET refusal = NULL WHERE {_CHOSEN} AND refusal IS NOT NULL"  # noqa: S608 - our own words
_DROP = f"DELETE FROM waiting WHERE {_CHOSEN}"  # noqa: S608


class Buffer:
    """A SQLite file that one client has for itself; what a killed process left is sent by the next.

    Raises `BufferUnusable` for what SQLite cannot do, except when it notes what the API did: that is kept in memory
    until the file can be written.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.path, self.limit = path, limit
        self.rest = Rest()
        # whether what callers wait for is committed, or why it was refused
        self._claimed: dict[int, bool | Refused] = {}
        # what the file does not know yet: None for what is gone, or why it was refused
        self._unwritten: dict[int, str | None] = {}
        self._guard = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # it holds what people wrote
            path.touch(mode=0o600)
            self._rows = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        try:
            with self._using():
                # without the lock a second client would send the same, in another order
                self._rows.executescript(
                    "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                )
                self._rows.execute("BEGIN EXCLUSIVE").execute(_TABLE).execute("COMMIT")
                self._load()
        except BufferUnusable:
            self._rows.close()
            raise

    def _load(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self.waiting, self._aside = 0, 0
        for number, method, path, body, refusal in self._rows.execute(f"{_ROWS} ORDER BY id"):
            if refusal is None:
                self._lane(change(method, path, body)).numbers.append(number)
                self.waiting += 1
            else:
                self._aside += 1

    def _lane(self, call: Call[bool]) -> Lane:
        return self._lanes.setdefault(lane_of(call.path, call.body), Lane())

    def append(self, call: Call[bool]) -> tuple[Lane, list[int]]:
        """Write down what a call hands over; return where it waits, to be claimed until the call returns."""
        bodies = each(call)
        with self._using():
            if self.waiting + self._aside + len(bodies) > self.limit:
                held = f"{self.waiting} requests wait for the API, {self._aside} are set aside"
                raise BufferUnusable(f"the buffer {os.fspath(self.path)} is full: {held}.")
            with self._together():
                rows = [
                    self._rows.execute(_INSERT, (call.method, call.path, body)).lastrowid for body in bodies
                ]
            lane, numbers = self._lane(call), [row for row in rows if row is not None]
            lane.numbers.extend(numbers)
            self.waiting += len(numbers)
            self._claimed |= dict.fromkeys(numbers, False)
        return lane, numbers

    def is_committed(self, lane: Lane, numbers: list[int]) -> bool:
        """Return whether nothing waits of what a call handed over.

        Raises `Refused` if some of it was wrong, and `KeyRefused` if it waits because of the key.
        """
        outcomes = [self._claimed[number] for number in numbers]
        # the API saw each of them alone, its caller may have given several
        refused = {
            f"messages.{n}": refusal for n, refusal in enumerate(outcomes) if isinstance(refusal, Refused)
        }
        if refused:
            told = [str(refusal).replace("messages.0", nth) for nth, refusal in refused.items()]
            nth, first = next(iter(refused.items()))
            raise type(first)("; ".join(told), field=first.field.replace("messages.0", nth))
        for reason in (self.rest.reason, lane.rest.reason):
            if isinstance(reason, KeyRefused) and not all(outcomes):
                raise type(reason)(f"{reason} What was handed over waits in the buffer.")
        return all(outcomes)

    def release(self, numbers: list[int]) -> None:
        """Let nobody claim these any more: if refused, they are set aside."""
        with self._guard:
            for number in numbers:
                del self._claimed[number]

    def overtakes(self, call: Call[bool]) -> bool:
        """Return whether a call that is not written down would overtake something."""
        return bool(self._lane(call).numbers)

    def lanes(self) -> list[Lane]:
        """Return the lanes in which something waits, those that rest longest last."""
        with self._guard:
            self._lanes = {name: lane for name, lane in self._lanes.items() if lane.numbers}
            return sorted(self._lanes.values(), key=lambda lane: (lane.rest.until, lane.numbers[0]))

    def next(self, lane: Lane) -> tuple[list[int], Call[bool]] | None:
        """Return what is tried next of a lane, merged into one request; None if nothing waits in it."""
        if not lane.numbers:
            return None
        with self._using():
            rows = self._rows.execute(_NEXT, [json.dumps(list(islice(lane.numbers, lane.size)))])
            number, method, path, body, _ = next(rows)
            numbers, merged, size = [number], None, len(body)
            for number, _, other_path, other_body, _ in rows if path == ADD else ():
                merged = merged or json.loads(body)
                other = json.loads(other_body) if other_path == ADD else {"chat": None}
                size += len(other_body)
                if other["chat"] != merged["chat"] or size > MAX_BATCH_BYTES:
                    break
                merged["messages"] += other["messages"]
                numbers.append(number)
        return numbers, change(method, path, json.dumps(merged).encode() if len(numbers) > 1 else body)

    def settle(self, lane: Lane, numbers: list[int], outcome: bool | BackscrollError) -> bool:
        """Note what became of the next of a lane; return whether the lane goes on."""
        with self._guard:
            if not isinstance(outcome, BackscrollError):
                self.rest = Rest()
                lane.committed(len(numbers))
                self._note(numbers, None)
            elif isinstance(outcome, Refused) and len(numbers) == 1:
                lane.set_aside()
                self._note(numbers, outcome)
            else:
                is_first = lane.rest.reason is None
                goes_on = lane.failed(len(numbers), outcome, time.monotonic())
                if is_first and not goes_on and not isinstance(outcome, NoAnswer):
                    told = "request %d of %s waits, and what is behind it in its chat: %s"
                    log.warning(told, numbers[0], self.path, outcome)
                return goes_on
        return True

    def _note(self, numbers: list[int], refusal: Refused | None) -> None:
        """Write down that these do not wait any more."""
        self.waiting -= len(numbers)
        for number in numbers:
            self._unwritten[number] = None
            if number in self._claimed:
                self._claimed[number] = refusal or True
            elif refusal is not None:
                self._unwritten[number] = str(refusal)
                self._aside += 1
                log.error("request %d of %s is refused and set aside: %s", number, self.path, refusal)
        try:
            self._write()
        except BufferUnusable as error:
            log.warning("%s What became of %d requests is written later.", error, len(self._unwritten))

    def _write(self) -> None:
        """Tell the file what it does not know yet."""
        with self._using(), self._together():
            for number, refusal in self._unwritten.items():
                if refusal is None:
                    self._rows.execute("DELETE FROM waiting WHERE id = ?", [number])
                else:
                    self._rows.execute("UPDATE waiting SET refusal = ? WHERE id = ?", [refusal, number])
        self._unwritten.clear()

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Commit statements as one."""
        self._rows.execute("BEGIN")
        yield
        self._rows.execute("COMMIT")

    def set_aside(self) -> list[SetAside]:
        """Return what the API refused for good."""
        with self._using():
            self._write()
            rows = self._rows.execute(f"{_ROWS} WHERE refusal IS NOT NULL ORDER BY id").fetchall()
        return [SetAside(*row) for row in rows]

    def send_again(self, numbers: Sequence[int]) -> int:
        """Let what was set aside wait again, each at its place; return how many there are of these numbers."""
        return self._change(_AGAIN, numbers)

    def drop(self, numbers: Sequence[int]) -> int:
        """Delete requests for good, set aside or waiting; return how many there are of these numbers."""
        return self._change(_DROP, numbers)

    def _change(self, statement: str, numbers: Sequence[int]) -> int:
        with self._using():
            self._write()
            changed = self._rows.execute(statement, [json.dumps(numbers)]).rowcount
            self._load()
            return changed

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Keep other threads from the file; raise `BufferUnusable` for what SQLite cannot do."""
        with self._guard:
            try:
                yield
            except sqlite3.Error as error:
                with suppress(sqlite3.Error):
                    self._rows.rollback()
                raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> BufferUnusable:
        told = f"the buffer {os.fspath(self.path)} cannot be used: {error}."
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            return BufferUnusable(f"{told} A client has it open: ask that one, or stop it.")
        return BufferUnusable(f"{told} Make room on the disk, or give a file that may be written.")

    def close(self) -> None:
        """Close the file; what waits stays in it."""
        with suppress(BufferUnusable):
            self._write()
        self._rows.close()
