"""Call endpoints through OpenAI's SDK, and say what its errors mean: whose fault it is, and how long to wait.

Importing the SDK takes 30 MB and half a second, so only a process that calls a model imports this module.
"""

import json
import re
from collections.abc import Container
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import httpx2
import openai
from openai import APIError as APIError
from openai import APIStatusError as APIStatusError

from pipeline.clients.http_calls import http_client, retry_after
from pipeline.clients.openai_chat import ModelServer, is_too_long
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable

MAX_ANSWER_BYTES = 64 * 1024**2
"""Bytes of an answer: 1,000 vectors of 2,500 dimensions, written as numbers."""
MAX_ERROR_BYTES = 64 * 1024
"""Bytes read of an error response."""
MAX_ERROR_CHARS = 300
"""Characters of a server's message that are quoted in an error."""
BUSY_SECONDS, MENDED_SECONDS = 20.0, 600.0
"""A rate limit is over soon, but an empty account or a wrong key must be fixed by somebody."""

# Characters by which a key is recognized in a message, which may mask the rest.
_KEY_CHARS = 8
_REST_OF_KEY = re.compile(r"[^\s\"',;)]*")
_TAG = re.compile(r"<[^<>]*>")
# Keys of an error's message, which comes first, and of the request that it repeats, which is left out.
_SAID_FIRST = ("error", "message", "msg", "detail")
_REPEATED = {"input", "body", "request"}
# Headers of a body as it was sent, before it was read whole and decoded.
_OF_THE_TRANSFER = frozenset(("content-encoding", "content-length", "transfer-encoding"))


class WholeAnswers(httpx2.AsyncClient):
    """Reads answers whole up to a size, and of errors what messages need; an error sent as an answer is one, too."""

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send a request. Raises `ProviderFailed` for an answer that is too large."""
        response = await super().send(request, stream=True, **options)
        body, most = bytearray(), MAX_ANSWER_BYTES if response.is_success else MAX_ERROR_BYTES
        async with aclosing(response):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > most:
                    break
        if len(body) > most and response.is_success:
            raise ProviderFailed(
                f"{request.url.host} answered with more than {most:,} bytes: ask for less at once"
            )
        headers = [(k, v) for k, v in response.headers.multi_items() if k.lower() not in _OF_THE_TRANSFER]
        status = _status_inside(body) if response.is_success else response.status_code
        return httpx2.Response(status, headers=headers, content=bytes(body), request=request)


def _status_inside(body: bytearray) -> int:
    """Return 200, or the status of the provider behind a router, which answers 200 with an error in the body."""
    error = None
    if b'"error"' in body[:MAX_ERROR_BYTES]:
        with suppress(ValueError, RecursionError, AttributeError):
            error = json.loads(body).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 502 if error else 200


class EndpointClient(openai.AsyncOpenAI):
    """The SDK's client of one server. It asks once: whether to ask again is the job's decision."""

    def __init__(self, url: str, key: str | None) -> None:
        """Set up without connecting. Raises `ProviderUnavailable` as `http_client` does."""
        # no timeout: there is one for a whole call
        http = http_client(url, WholeAnswers)
        super().__init__(base_url=url, api_key=key or "none", max_retries=0, timeout=None, http_client=http)

    @property
    def default_headers(self) -> dict[str, Any]:
        # none that the SDK takes from variables of the environment, which are meant for OpenAI
        json_ = "application/json"
        return {"Accept": json_, "Content-Type": json_, "User-Agent": self.user_agent}


class _Meaning(NamedTuple):
    """What an error of the SDK means; the first that fits counts."""

    error: type[APIError]
    # the provider is left alone, or the input is to blame
    raises: type[ProviderUnavailable | ProviderRejected]
    # of these statuses only
    status: Container[int] | None = None
    # how long a language model's provider is left alone, if it does not say itself
    seconds: float | None = None
    # which of both it is, an embedder finds out by other texts
    unclear: bool = False
    # what somebody has to do
    remedy: str = ""


_LOGIN = "set {login}"
_ADDRESS = "it has no model {model}, or is not at this address: check {settings}"
_AWAY, _REJECTED = ProviderUnavailable, ProviderRejected
_MEANINGS = (
    _Meaning(openai.AuthenticationError, _AWAY, seconds=MENDED_SECONDS, remedy=_LOGIN),
    _Meaning(openai.PermissionDeniedError, _AWAY, seconds=MENDED_SECONDS, remedy=_LOGIN),
    _Meaning(openai.NotFoundError, _AWAY, seconds=MENDED_SECONDS, remedy=_ADDRESS),
    _Meaning(openai.RateLimitError, _AWAY, seconds=BUSY_SECONDS),
    # the server, or a proxy in front of it, is busy or down; any other 5xx may be caused by the input
    _Meaning(APIStatusError, _AWAY, status=(408, 425, 502, 503, 504, 529)),
    _Meaning(openai.InternalServerError, _AWAY, unclear=True),
    _Meaning(openai.ConflictError, _AWAY, unclear=True),
    _Meaning(APIStatusError, _REJECTED, status=(413,)),
    # a redirect, which is not followed
    _Meaning(APIStatusError, _AWAY, range(400), seconds=MENDED_SECONDS, unclear=True, remedy=_ADDRESS),
    _Meaning(APIStatusError, _REJECTED, unclear=True),
)


def failure(
    error: APIError, model: str, server: ModelServer, key: str | None
) -> ProviderUnavailable | ProviderFailed | ProviderRejected:
    """Return the exception for an error of the SDK; the key is not in its message."""
    if not isinstance(error, APIStatusError):
        cause = error.__cause__
        if isinstance(cause, httpx2.DecodingError):
            return ProviderFailed(f"{server.name} gave an answer that cannot be read: {cause}")
        why = _without_key(str(cause) or type(cause).__name__, key)
        return ProviderUnavailable(
            f"{server.name} cannot be reached ({why}): start it, or set {server.address} to where it is"
        )
    said, status = words(error, key), error.status_code
    meaning = next(m for m in _MEANINGS if isinstance(error, m.error) and status in (m.status or (status,)))
    too_long = meaning.raises is ProviderRejected and (is_too_long(said) or "max_tokens" in said)
    answered = f"{server.name} answered {status}{', the text is too long' if too_long else ''}"
    remedy = meaning.remedy.format(login=server.login, model=model, settings=server.settings)
    message = ": ".join(filter(None, (answered, said[:MAX_ERROR_CHARS], remedy)))
    raised: ProviderUnavailable | ProviderFailed | ProviderRejected
    if meaning.unclear and server.tries_others and not too_long:
        raised = ProviderFailed(message)
    elif meaning.raises is ProviderRejected:
        raised = ProviderRejected(message)
    else:
        usual = None if server.tries_others else meaning.seconds
        usual = MENDED_SECONDS if usual and "insufficient_quota" in said else usual
        asked = retry_after(error.response.headers, datetime.now(UTC))
        raised = ProviderUnavailable(message, retry_after=usual if asked is None else asked)
    raised.request_id = error.request_id
    return raised


def words(error: APIStatusError, key: str | None) -> str:
    """Return a server's message, whatever the form of its body, without the key: all texts of the JSON, or of the page.

    Of a refused login it is empty: it may quote the key in a form of its own.
    """
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return ""
    said = error.response.text
    try:
        said = str(json.loads(said, object_hook=_said))
    except (ValueError, RecursionError):
        said = _TAG.sub(" ", said)
    return _without_key(" ".join(said.split()), key)


def _said(body: dict[str, Any]) -> str:
    """Return the texts of an error's JSON; an object in it is such a text already."""
    names = sorted(body.keys() - _REPEATED, key=lambda name: (name not in _SAID_FIRST, name))
    return " ".join(str(body[name]) for name in names if isinstance(body[name], str | list))


def _without_key(message: str, key: str | None) -> str:
    """Return a message without the key, of which a server may have masked a part."""
    if not key:
        return message
    before, *after = message.split(key[:_KEY_CHARS])
    return "(the key)".join([before, *(_REST_OF_KEY.sub("", part, count=1) for part in after)])
