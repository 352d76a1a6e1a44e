"""Reads a request's body: JSON, at most 8 MiB, told apart from what only pretends to be it."""

import asyncio
import json
import math
import re
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel

from schemas.errors import InvalidInput
from schemas.messages import clean_text
from schemas.payloads import parse_payload
from workers.api.errors import HttpError

T = TypeVar("T", bound=BaseModel)

_UNSTORABLE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
MAX_BODY_BYTES = 8 * 1024 * 1024
BODY_SECONDS = 30.0
"""In which a body must have arrived: who sends a byte a minute shall not keep a connection."""


# async: a thread for each slow sender would soon leave none for the others
async def read(request: Request) -> bytes:
    """The body of a request. Raises `HttpError` for one that is too large or too slow."""
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


def _too_large() -> HttpError:
    detail = f"A body may have {MAX_BODY_BYTES} bytes: send the messages in several requests."
    return HttpError(413, "too-large", detail)


Body = Annotated[bytes, Depends(read)]


def parse(model: type[T], body: bytes) -> T:
    """The body as a model, whatever its content type says. Raises `InvalidInput` naming field and limit.

    Meant for a thread: a large body takes some tenths of a second.
    """
    try:
        value = _json(body)
        # in UTF-8 what Postgres cannot store stands as an escape; most bodies have none, and need no copy
        return parse_payload(model, _storable(value) if _UNSTORABLE.search(body) else value)
    except RecursionError:
        raise InvalidInput("the body is nested too deeply", field="body") from None


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
        # a number: not finite, or of thousands of digits
        raise InvalidInput(f"the body holds a number that cannot be kept: {error}", field="body") from None


def _finite(digits: str) -> float:
    """JSON knows neither NaN nor infinity, Python takes both, and Postgres neither."""
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is not finite")
    return number


def _storable(value: Any) -> Any:
    """The same without what Postgres cannot store, NUL and lone surrogates, in every text."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): _storable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    return value
