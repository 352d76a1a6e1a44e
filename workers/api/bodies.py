"""Request bodies: JSON of at most 8 MiB, read and checked by one dependency, `Body[Model]`.

FastAPI's own handling would break promises: it reads a body of any size to its end before it checks the API key; it
parses and validates in the event loop, where a large body delays all other requests; it accepts NaN and infinity; and
it refuses other content types, such as that of `curl -d`.
"""

import asyncio
import json
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from anyio import to_thread
from fastapi import Depends, Request
from pydantic import BaseModel

from schemas.errors import InvalidInput
from schemas.messages import clean_json
from schemas.payloads import parse_payload
from workers.api.admission import caller_of
from workers.api.errors import HttpError
from workers.api.state import state_of

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")

_UNSTORABLE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
MAX_BODY_BYTES = 8 * 1024 * 1024
SMALL_BODY_BYTES = 16 * 1024
"""Size up to which a body is parsed in less time than a thread takes to start in a busy process."""
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
        """Read and parse the body, a large one in a thread; check that the key may name its chat."""
        body = await read(request)
        parsed = await in_thread_if_large(request, body, lambda: parse(self.model, body))
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


async def read(request: Request) -> bytes:
    """Read the body of a request. Raises `HttpError` for one that is too large or too slow."""
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    raise _too_large()
    except TimeoutError:
        detail = f"The body must arrive within {BODY_SECONDS:.0f} s."
        raise HttpError(408, "slow-body", detail) from None
    return bytes(body)


async def in_thread_if_large(request: Request, body: bytes, call: Callable[[], R]) -> R:
    """Parse a body, in a thread unless it is small."""
    return call() if len(body) <= SMALL_BODY_BYTES else await in_thread(request, body, call)


async def in_thread(request: Request, body: bytes, call: Callable[..., R], *args: Any) -> R:
    """Call in a thread; with a large body, wait for its turn."""
    turns = state_of(request).large_bodies if len(body) > LARGE_BODY_BYTES else None
    return await to_thread.run_sync(call, *args, limiter=turns)


def _too_large() -> HttpError:
    detail = f"A body may have {MAX_BODY_BYTES} bytes: send the messages in several requests."
    return HttpError(413, "too-large", detail)


def parse(model: type[T], body: bytes) -> T:
    """Parse a body as a model, which takes some tenths of a second for a large one.

    Raises `InvalidInput` that names field and limit.
    """
    try:
        return parse_payload(model, value_of(body))
    except RecursionError:
        raise _too_deep() from None


def value_of(body: bytes) -> Any:
    """Parse a body as JSON that Postgres can store. Raises `InvalidInput`."""
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
