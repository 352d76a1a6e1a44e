"""Ask a language model behind an endpoint that speaks OpenAI's protocol, with the options that it supports.

A call is sent once, and again only without what the endpoint refuses; further retries are the caller's decision.

An option refused for a model is left out of all later requests of this process for it: support differs by version,
model and configuration, and no endpoint tells in advance.
"""

import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import structlog

from pipeline.clients.http_calls import run_within
from pipeline.clients.protocols import Completion, Prompt
from pipeline.text.tokens import estimate
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.server_urls import without_secrets

if TYPE_CHECKING:
    from openai import AsyncOpenAI


log = structlog.get_logger(__name__)

OPENAI_URL = "https://api.openai.com/v1"
CLOSING_SECONDS = 3.0

Request = dict[str, Any]
"""The arguments of a method of the SDK's."""
Write = Callable[[frozenset[str]], Request]
"""Makes them, without the options of these names."""
Method = Callable[["AsyncOpenAI"], Callable[..., Awaitable[Any]]]
"""Names a method with its raw response: the SDK would look at each number of a vector."""

# A refused option is answered with one of these; by OpenRouter with 404, by llama-cpp-python with 500.
_REFUSED = frozenset((400, 404, 415, 422, 500, 501))
# Of these, a refusal that names no option may be about any of them.
_ABOUT_THE_REQUEST = frozenset((400, 415, 422))
_FORM = (
    r"response[ _](format|mime|schema)|json[ _](schema|object|mode)|schema|grammar|structured output|guided"
)
_ROLE = r"\broles?\b|(system|developer) (instruction|message|prompt)"
_ENCODING = "encoding_format|base64"
# Its names in the refusals of providers; a name of two options means the first that the request has.
_NAMES = {
    "json_schema": _FORM,
    "json_object": _FORM,
    "temperature": "temperature",
    "max_tokens": "max_(completion_)?tokens",
    "system": _ROLE,
    "base64": _ENCODING,
    "encoding_format": _ENCODING,
}
# Options that may be left out on trial, not those that merely rename the answer's limit.
_OPTIONAL = _NAMES.keys() - {"max_tokens"}
_PLAIN = "plain"
ANSWERED = "answered"
"""Among the options of a model that has answered, and so supports all that are not left out by now."""
_WITHOUT = {
    "json_schema": "takes no JSON schema: its answers are asked for as JSON without one",
    "json_object": "has no JSON mode: only the instructions ask for JSON",
    "temperature": "takes no temperature: it answers at its own",
    "max_tokens": "takes no max_tokens: the room for an answer is sent as max_completion_tokens",
    "system": "has no system role: instructions are part of the user's turn",
    "base64": "sends no vectors in base64: they come as numbers, which takes four times the traffic",
    "encoding_format": "takes no encoding_format: vectors come as it likes",
    "index": "does not number its vectors: they are taken in the order of the texts",
    _PLAIN: "refuses something and does not say what: it is asked without all that a request can do without",
}


def _options(request: Request) -> set[str]:
    """Return the options that a request has."""
    has = {"temperature", "max_tokens", "encoding_format"} & request.keys()
    has |= {str(request[name]["type"]) for name in request.keys() & {"response_format"}}
    return has | {request.get("encoding_format"), request.get("messages", [{}])[0].get("role")}


class Learned:
    """The unsupported options of endpoints and models, as learned by this process; threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left_out: dict[tuple[str, str], frozenset[str]] = {}

    def left_out(self, url: str, model: str) -> frozenset[str]:
        """Return the names of the options that are left out for a model, and `ANSWERED` once it has answered."""
        return self._left_out.get((url, model), frozenset())

    def record(self, url: str, model: str, names: Iterable[str]) -> None:
        """Record options to leave out for a model, and log new ones."""
        with self._lock:
            known = self.left_out(url, model)
            self._left_out[url, model] = known.union(names)
        for name in _reported(frozenset(names) - known):
            log.info("endpoint_learned", endpoint=url, model=model, option=name, learned=_WITHOUT[name])

    def sentences(self) -> list[str]:
        """Describe what each endpoint does not support, and what is done instead."""
        noted = sorted(self._left_out.copy().items())
        return [
            f"{model} at {url} {_WITHOUT[name]}" for (url, model), names in noted for name in _reported(names)
        ]

    def clear(self) -> None:
        """Forget everything, so that all options are tried again."""
        self._left_out.clear()


LEARNED = Learned()


def _reported(names: frozenset[str]) -> list[str]:
    """Return the options to report as left out; of those left out on trial, the refused one is unknown."""
    return sorted(names - {ANSWERED} - (_OPTIONAL if _PLAIN in names else set()))


@dataclass(frozen=True, kw_only=True)
class ModelServer:
    """How messages name a server, and what somebody can do about its refusals."""

    name: str
    # the variable with its address, what to set if it refuses the login, and what to check if it has no such model
    address: str = "BACKSCROLL_OPENAI_BASE_URL"
    login: str = "BACKSCROLL_OPENAI_API_KEY to a key that it takes"
    settings: str = "BACKSCROLL_OPENAI_BASE_URL, which usually ends in /v1"
    # an embedder finds out by other texts whether a text is to blame; a prompt is sent alone
    tries_others: bool = False


class Answer(NamedTuple):
    """The JSON of an answer, and the server's id of the request, if it said one."""

    body: dict[str, Any]
    request_id: str | None


class OpenAIEndpoint:
    """One model of one endpoint; threads may share it."""

    def __init__(self, url: str, key: str | None, model: str, server: ModelServer) -> None:
        """Set up without connecting, or importing the SDK."""
        self._url = url.rstrip("/")
        # for messages
        self.url = without_secrets(self._url)
        self.model = model
        self.server = server
        self._key = key

    def prepare(self) -> None:
        """Import the SDK and read certificates: some seconds that are no part of a call's time."""
        _ = self._client

    def ask(self, method: Method, write: Write, *, seconds: float) -> Answer:
        """Return what one of the SDK's methods answers.

        A refused option is left out and the request repeated: once for each option, and once more if the refusal names
        none of them and the model has never answered. Raises `ProviderUnavailable`, `ProviderFailed` or
        `ProviderRejected`, and `TimeoutError` after `seconds` in all.
        """
        create = method(self._client)
        return run_within(seconds, lambda: self._asked(create, write))

    def close(self) -> None:
        """Close its connections; a process that keeps its models need not."""
        if "_client" in vars(self):
            run_within(CLOSING_SECONDS, self._client.close)

    @cached_property
    def _client(self) -> "AsyncOpenAI":
        from pipeline.clients.openai_sdk import EndpointClient

        return EndpointClient(self._url, self._key)

    async def _asked(self, create: Callable[..., Awaitable[Any]], write: Write) -> Answer:
        from pipeline.clients import openai_sdk as sdk

        on_trial: frozenset[str] = frozenset()
        while True:
            without = LEARNED.left_out(self.url, self.model)
            request = write(without | on_trial)
            try:
                response = await create(**request)
            except sdk.APIError as error:
                option = None
                if isinstance(error, sdk.APIStatusError):
                    option = _refused(error.status_code, sdk.words(error, self._key), request)
                if option is not None and option != _PLAIN:
                    LEARNED.record(self.url, self.model, [option])
                elif (
                    option is not None
                    and not on_trial
                    and ANSWERED not in without
                    and (optional := _optional(write, without))
                ):
                    on_trial = optional | {_PLAIN}
                else:
                    raise sdk.failure(error, self.model, self.server, self._key) from None
            else:
                with suppress(ValueError, RecursionError):
                    if isinstance(body := json.loads(response.content), dict):
                        LEARNED.record(self.url, self.model, on_trial | {ANSWERED})
                        return Answer(body, response.request_id)
                raise ProviderFailed(f"{self.server.name} gave an answer that cannot be read")


# Servers have no common code for a text that is too long.
_TOO_LONG = ("too long", "too large", "context length", "maximum context", "input length", "exceed")


def is_too_long(message: str) -> bool:
    """Tell whether a server's message says that a text, or the requested answer, exceeds the model's window."""
    return any(phrase in message.lower() for phrase in _TOO_LONG)


def _refused(status: int, message: str, request: Request) -> str | None:
    """Return the option of a request that a refusal is about; `plain` if it may be about any, None if about none."""
    if status not in _REFUSED or is_too_long(message):
        return None
    message, options = message.lower(), _options(request)
    named = (name for name, pattern in _NAMES.items() if name in options and re.search(pattern, message))
    return next(named, _PLAIN if status in _ABOUT_THE_REQUEST or "parameters" in message else None)


def _optional(write: Write, without: frozenset[str]) -> frozenset[str]:
    """Return the further options that a request can do without; leaving one out may add another."""
    names: frozenset[str] = frozenset()
    while more := (_OPTIONAL & _options(write(without | names))) - names:
        names |= more
    return names


# Thoughts of a reasoning model before its answer, if its server leaves them there; they may be cut off.
_THOUGHTS = re.compile(r"\s*<(think(?:ing)?)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_MAX_REFUSAL_CHARS = 300


class OpenAIChatModel:
    """One model of one endpoint; threads may share it."""

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        """Set up without connecting."""
        url = urlsplit(base_url or OPENAI_URL)
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
        self.provider = f"{host}:{url.port or (443 if url.scheme == 'https' else 80)}"
        self.model = model
        self._endpoint = OpenAIEndpoint(
            base_url or OPENAI_URL, api_key, model, ModelServer(name=self.provider)
        )

    def complete(self, prompt: Prompt, *, timeout_seconds: float) -> Completion:
        """Answer a prompt, within `timeout_seconds` in all, as `ChatModel.complete` does."""
        try:
            answer = self._endpoint.ask(
                lambda client: client.chat.completions.with_raw_response.create,
                partial(self._request, prompt),
                seconds=timeout_seconds,
            )
        except TimeoutError as error:
            raise ProviderUnavailable(
                f"{self.provider} did not answer within {timeout_seconds:.0f} s"
            ) from error
        return self._completion(prompt, answer)

    def close(self) -> None:
        """Close its connections."""
        self._endpoint.close()

    def _request(self, prompt: Prompt, without: frozenset[str]) -> Request:
        turns = list(prompt.turns)
        if "system" in without:
            turns[0] = f"{prompt.system}\n\n{turns[0]}"
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)]
        if "system" not in without:
            messages.insert(0, {"role": "system", "content": prompt.system})
        request: Request = {"model": self.model, "messages": messages}
        request["max_completion_tokens" if "max_tokens" in without else "max_tokens"] = prompt.max_tokens
        if "temperature" not in without:
            request["temperature"] = 0
        if prompt.schema is not None and "json_schema" not in without:
            schema = {"name": "answer", "strict": True, "schema": dict(prompt.schema)}
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif prompt.schema is not None and "json_object" not in without:
            request["response_format"] = {"type": "json_object"}
        return request

    def _completion(self, prompt: Prompt, answer: Answer) -> Completion:
        try:
            choice = answer.body["choices"][0]
            message = choice["message"]
            text = message.get("content") or ""
            if message.get("refusal"):
                raise ProviderRejected(
                    f"{self.model} refuses: {str(message['refusal'])[:_MAX_REFUSAL_CHARS]}"
                )
            text = text if isinstance(text, str) else "".join(part["text"] for part in text)
            usage = answer.body.get("usage") or {}
            read, written = (int(usage.get(f"{kind}_tokens") or 0) for kind in ("prompt", "completion"))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ProviderFailed(f"{self.provider} gave an answer that cannot be read") from error
        if choice.get("finish_reason") == "content_filter":
            raise ProviderRejected(f"{self.provider} filtered the answer of {self.model}")
        return Completion(
            text=text[thoughts.end() :] if (thoughts := _THOUGHTS.match(text)) else text,
            truncated=choice.get("finish_reason") == "length",
            input_tokens=read or sum(map(estimate, (prompt.system, *prompt.turns))),
            output_tokens=written or estimate(text),
            request_id=answer.request_id,
        )
