"""What arrives from outside: bodies and forms, read within limits, and parsed where nobody waits for it.

`Body[Model]` is the dependency for JSON. FastAPI's own handling would break promises: it reads a body of any size to
its end before it checks the API key; it parses and validates in the event loop, where a large body delays all other
requests; it accepts NaN and infinity; and it refuses other content types, such as that of `curl -d`.
"""

import asyncio
import json
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from anyio import to_thread
from fastapi import Depends, Request
from pydantic import BaseModel

from schemas.errors import InvalidInput
from schemas.messages import clean_json, clean_text
from schemas.payloads import parse_payload
from workers.api.admission import caller_of
from workers.api.errors import HttpError
from workers.api.state import state_of

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")

_UNSTORABLE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
MAX_BODY_BYTES = 8 * 1024 * 1024
LOOP_BYTES = 4 * 1024
"""The most that is parsed in the event loop, where all other requests wait: less work than handing it to a thread."""
MAX_FORM_FIELDS = 50
LARGE_BODY_BYTES, LARGE_AT_ONCE = 256 * 1024, 2
"""Size from which a body takes tenths of a second, and how many of them a process works on at once: each computing
thread makes the event loop, and so all requests, wait for the interpreter."""
BODY_SECONDS = 30.0
"""Time for a body to arrive, so that a slow sender does not occupy a connection."""


class BodyReader:
    """A dependency: the request's body as a model. Raises as `read` and `parse` do."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model

    # async: with a thread for each slow sender, none would be left for others
    async def __call__(self, request: Request) -> BaseModel:
        """Read and parse the body; check that the key may name its chat."""
        body = await read(request)
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


async def read(request: Request, most: int = MAX_BODY_BYTES) -> bytes:
    """Read the body of a request. Raises `HttpError` for one that is too large or too slow."""
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise _too_large(most)
    except TimeoutError:
        detail = f"The body must arrive within {BODY_SECONDS:.0f} s."
        raise HttpError(408, "slow-body", detail) from None
    return bytes(body)


async def off_loop(request: Request, body: bytes, call: Callable[[], R]) -> R:
    """Call what parses a body, in a thread unless it is small."""
    return call() if len(body) <= LOOP_BYTES else await in_thread(request, body, call)


async def in_thread(request: Request, body: bytes, call: Callable[..., R], *args: Any) -> R:
    """Call in a thread; with a large body, wait for its turn."""
    turns = state_of(request).large_bodies if len(body) > LARGE_BODY_BYTES else None
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
        return clean_json(value) if _UNSTORABLE.search(body) else value
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> InvalidInput:
    return InvalidInput("the body is nested too deeply", field="body")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body.decode(), parse_float=_finite, parse_constant=_finite)
    except UnicodeDecodeError as error:
        message = f"the body is not UTF-8: byte {error.start} is {body[error.start]:#04x}"
        raise InvalidInput(message, field="body") from None
    except json.JSONDecodeError as error:
        message = f"the body is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        raise InvalidInput(message, field="body") from None
    except ValueError as error:
        # a number that is not finite, or has thousands of digits
        raise InvalidInput(f"the body holds a number that cannot be stored: {error}", field="body") from None


def _finite(digits: str) -> float:
    """Parse a number, refusing NaN and infinity, which Python accepts but JSON and Postgres do not."""
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is not finite")
    return number
