"""What arrives from outside: bodies and forms, read within limits, and parsed where nobody waits for it.

`Body[Model]` is the dependency for JSON. FastAPI's own handling would break promises: it reads a body of any size to
its end before it checks the API key; it parses and validates in the event loop, where a large body delays all other
requests; it accepts NaN and infinity; and it refuses other content types, such as that of `curl -d`.

Every parser in C (Python's, orjson, pydantic's) holds the interpreter for the whole body: for 8 MiB of empty lists a
second, and the garbage collector as long again.
"""

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from json.decoder import JSONArray, JSONObject, scanstring  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from anyio import to_thread
from fastapi import Depends, Request
from pydantic import BaseModel

from schemas.errors import InvalidInput
from schemas.messages import clean_json, clean_text
from schemas.payloads import parse_payload
from workers.api.admission import caller_of
from workers.api.problems import HttpError, unavailable
from workers.api.state import state_of

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")

_UNSTORABLE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
MAX_BODY_BYTES = 8 * 1024 * 1024
LOOP_BYTES = 4 * 1024
"""The most that is parsed in the event loop, where all other requests wait: less work than handing it to a thread."""
MAX_FORM_FIELDS = 50
LARGE_BODY_BYTES = 64 * 1024
"""Size from which a body waits for its turn, and is parsed so that other threads run meanwhile."""
LARGE_PARSED, LARGE_HELD = 2, 16
"""Large bodies that a process parses, and holds in memory, at once: more of them would make all wait."""
TURN_SECONDS, RETRY_SECONDS = 20.0, 5
"""How long a large body waits to be read, and when to send it again after that."""
BODY_SECONDS = 30.0
"""Time for a body to arrive, so that a slow sender does not occupy a connection."""


class BodyReader:
    """A dependency: the request's body as a model. Raises as `received` and `parse` do."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model

    # async: with a thread for each slow sender, none would be left for others
    async def __call__(self, request: Request) -> BaseModel:
        """Read and parse the body; check that the key may name its chat."""
        async with received(request) as body:
            parsed = await off_loop(request, body, lambda: parse(self.model, body))
        caller = caller_of(request)
        if caller.access.chat == "body":
            caller.require_chats([getattr(parsed, "chat_id", None)])
        return parsed


if TYPE_CHECKING:
    Body = Annotated[T, BodyReader]
else:

    class Body:
        """`Body[Model]`: a parameter that takes the request's body; declare it after `Tenant`."""

        def __class_getitem__(cls, model: type[BaseModel]) -> Any:
            return Annotated[model, Depends(BodyReader(model))]


@asynccontextmanager
async def received(request: Request, most: int = MAX_BODY_BYTES) -> AsyncIterator[bytes]:
    """Hold the body of a request; a large one waits for its turn before most of it is read.

    Raises `HttpError` for one that is too large or too slow, or has waited too long.
    """
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > most:
        raise _too_large(most)
    parts, body = request.stream(), bytearray()
    await _read(parts, body, min(most, LARGE_BODY_BYTES))
    async with AsyncExitStack() as held:
        if LARGE_BODY_BYTES < len(body) <= most:
            await held.enter_async_context(_turn(state_of(request).large_bodies))
            await _read(parts, body, most)
        if len(body) > most:
            raise _too_large(most)
        yield bytes(body)


@asynccontextmanager
async def _turn(turns: asyncio.Semaphore) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(TURN_SECONDS):
            await turns.acquire()
    except TimeoutError:
        raise unavailable("Too many large bodies come at once.", RETRY_SECONDS) from None
    try:
        yield
    finally:
        turns.release()


async def _read(parts: AsyncIterator[bytes], body: bytearray, enough: int) -> None:
    """Append what arrives to a body, until its end or until it has more bytes than `enough`."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in parts:
                body += part
                if len(body) > enough:
                    return
    except TimeoutError:
        detail = f"The body must arrive within {BODY_SECONDS:.0f} s."
        raise HttpError(408, "slow-body", detail) from None


async def off_loop(request: Request, body: bytes, call: Callable[[], R]) -> R:
    """Call what parses a body, in a thread unless it is small."""
    return call() if len(body) <= LOOP_BYTES else await in_thread(request, body, call)


async def in_thread(request: Request, body: bytes, call: Callable[..., R], *args: Any) -> R:
    """Call in a thread; with a large body, wait for its turn."""
    turns = state_of(request).large_parses if len(body) > LARGE_BODY_BYTES else None
    return await to_thread.run_sync(call, *args, limiter=turns)


def _too_large(most: int) -> HttpError:
    remedy = ": send the messages in several requests" if most == MAX_BODY_BYTES else ""
    return HttpError(413, "too-large", f"A body may have {most} bytes here{remedy}.")


def require_off_loop(body: bytes) -> None:
    """Raise `RuntimeError` for more than `LOOP_BYTES` in an event loop; everything that parses a body calls this."""
    if len(body) > LOOP_BYTES and asyncio._get_running_loop() is not None:
        raise RuntimeError(f"{len(body)} bytes would be parsed in the event loop")


def parse(model: type[T], body: bytes) -> T:
    """Parse a body as a model, which takes some tenths of a second for a large one.

    Raises `InvalidInput` that names field and limit.
    """
    try:
        return parse_payload(model, value_of(body))
    except RecursionError:
        raise _too_deep() from None


def fields_of(body: bytes) -> dict[str, str]:
    """Parse a form; fields left empty are left out. Raises `InvalidInput`."""
    require_off_loop(body)
    try:
        fields = parse_qsl(body.decode(errors="replace"), max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        raise InvalidInput(f"a form has at most {MAX_FORM_FIELDS} fields", field="body") from None
    return {clean_text(name): clean_text(value) for name, value in fields}


def value_of(body: bytes) -> Any:
    """Parse a body as JSON that Postgres can store. Raises `InvalidInput`."""
    require_off_loop(body)
    try:
        value = _json(body)
        # in JSON, characters that Postgres cannot store are escapes; most bodies have none and need no copy
        return clean_json(value) if b"\\u" in body and _UNSTORABLE.search(body) else value
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> InvalidInput:
    return InvalidInput("the body is nested too deeply", field="body")


def _json(body: bytes) -> Any:
    try:
        decoder = FAST_DECODER if len(body) <= LARGE_BODY_BYTES else YieldingDecoder()
        return decoder.decode(body.decode())
    except UnicodeDecodeError as error:
        message = f"the body is not UTF-8: byte {error.start} is {body[error.start]:#04x}"
        raise InvalidInput(message, field="body") from None
    except json.JSONDecodeError as error:
        message = f"the body is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        raise InvalidInput(message, field="body") from None
    except ValueError as error:
        # a number that is not finite, or has thousands of digits
        raise InvalidInput(f"the body holds a number that cannot be stored: {error}", field="body") from None


MAX_VALUES, MAX_ITEMS, MAX_TEXT_CHARS, MAX_DIGITS = 200_000, 10_000, 2**21, 4000
"""Values in a large body, items of a list or an object, and the length of a text and a number: no model takes more."""
PIECE_CHARS = 16 * 1024
_LONG_NUMBER = re.compile(rf"[\d.eE+-]{{{MAX_DIGITS}}}")
_Scan = Callable[[str, int], tuple[Any, int]]


class YieldingDecoder(json.JSONDecoder):
    """Python's decoder without its part in C: other threads run between two values. For one body.

    Raises `InvalidInput` beyond the limits.
    """

    def __init__(self) -> None:
        super().__init__(parse_float=_finite, parse_constant=_finite)
        self._left = MAX_VALUES
        self.parse_object, self.parse_array, self.parse_string = self._object, self._array, self._text
        self.scan_once = py_make_scanner(self)

    def _object(self, start: Any, strict: bool, scan_once: _Scan, *rest: Any) -> Any:
        return JSONObject(start, strict, self._limited(scan_once), *rest)

    def _array(self, start: Any, scan_once: _Scan) -> Any:
        pieces: list[int] = []
        items, end = JSONArray(start, self._limited(scan_once, pieces))
        return items + [None] * (sum(pieces) - len(pieces)), end

    def _text(self, text: str, at: int, strict: bool) -> Any:
        value, end = scanstring(text, at, strict)
        if len(value) > MAX_TEXT_CHARS:
            raise _too_much(f"a text of {MAX_TEXT_CHARS} characters")
        return value, end

    def _limited(self, scan_once: _Scan, pieces: list[int] | None = None) -> _Scan:
        """Return `scan_once` for an object, or a list whose items beyond the limit are only counted, in pieces."""
        left = MAX_ITEMS

        def scan(text: str, at: int) -> tuple[Any, int]:
            nonlocal left
            left, self._left = left - 1, self._left - 1
            if left < 0 and pieces is not None and (piece := _piece(text, at)) is not None:
                pieces.append(piece[0])
                return None, piece[1]
            if left < 0 and pieces is None:
                raise _too_much(f"{MAX_ITEMS} fields in an object")
            if self._left < 0:
                raise _too_much(f"{MAX_VALUES} values")
            if _LONG_NUMBER.match(text, at):
                raise _too_much(f"{MAX_DIGITS} digits in a number")
            return scan_once(text, at)

        return scan


def _too_much(limit: str) -> InvalidInput:
    return InvalidInput(f"the body holds more than {limit}", field="body")


def _piece(text: str, at: int) -> tuple[int, int] | None:
    """Return how many items of a list a piece of a text holds, and where it ends; None if the next item is longer."""
    end = text.rfind(",", at, at + PIECE_CHARS)
    try:
        # whatever is a list of whole values by itself is one in its place, too
        count = len(FAST_DECODER.decode(f"[{text[at:end]}]")) if end > at else 0
    except json.JSONDecodeError:
        count = 0
    return (count, end) if count else None


def _finite(digits: str) -> float:
    """Parse a number, refusing NaN and infinity, which Python accepts but JSON and Postgres do not."""
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is not finite")
    return number


FAST_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
