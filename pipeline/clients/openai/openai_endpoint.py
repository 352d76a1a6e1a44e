"""Call an endpoint that speaks OpenAI's protocol, and learn from its refusals which options it does not support.

An option refused for a model is left out of all later requests of this process for it: support differs by version,
model and configuration, and no endpoint tells in advance.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import httpx2
import structlog

from pipeline.clients.http_calls import UNAUTHORIZED, Answer, http_client, is_too_long, post
from schemas.errors import ProviderFailed, SettingsError
from schemas.server_urls import without_secrets

log = structlog.get_logger(__name__)

OPENAI_URL = "https://api.openai.com/v1"

Request = dict[str, Any]

# A refused option is answered with one of these; by OpenRouter with 404, by llama-cpp-python with 500.
_REFUSED = frozenset((400, 404, 415, 422, 500, 501))
# Of these, a refusal that names no option may be about any of them.
_ABOUT_THE_REQUEST = frozenset((400, 415, 422))
# Characters by which a key is recognized in a message, which may mask the rest.
_KEY_CHARS = 8


@dataclass(frozen=True, kw_only=True)
class Option:
    """A part of a request that not every endpoint supports."""

    name: str
    is_in: Callable[[Request], bool]
    # its names in the refusals of providers
    named: re.Pattern[str]
    # what happens without it, in words
    without: str


def _form(request: Request) -> str | None:
    form: str | None = request.get("response_format", {}).get("type")
    return form


_FORM_NAMES = re.compile(
    r"response[ _](format|mime|schema)|json[ _](schema|object|mode)|schema|grammar|structured output|guided"
)
_REST_OF_KEY = re.compile(r"[^\s\"',;)]*")
_ENCODING_NAMES = re.compile(r"encoding_format|base64")

# In the order in which a refusal is matched: a name of two options means the first.
OPTIONS = (
    Option(
        name="json_schema",
        is_in=lambda request: _form(request) == "json_schema",
        named=_FORM_NAMES,
        without="takes no JSON schema: its answers are asked for as JSON without one",
    ),
    Option(
        name="json_object",
        is_in=lambda request: _form(request) == "json_object",
        named=_FORM_NAMES,
        without="has no JSON mode: only the instructions ask for JSON",
    ),
    Option(
        name="temperature",
        is_in=lambda request: "temperature" in request,
        named=re.compile("temperature"),
        without="takes no temperature: it answers at its own",
    ),
    Option(
        name="max_tokens",
        is_in=lambda request: "max_tokens" in request,
        named=re.compile("max_(completion_)?tokens"),
        without="takes no max_tokens: the room for an answer is sent as max_completion_tokens",
    ),
    Option(
        name="system",
        is_in=lambda request: request.get("messages", [{}])[0].get("role") == "system",
        named=re.compile(r"\broles?\b|(system|developer) (instruction|message|prompt)"),
        without="has no system role: instructions are part of the user's turn",
    ),
    Option(
        name="base64",
        is_in=lambda request: request.get("encoding_format") == "base64",
        named=_ENCODING_NAMES,
        without="sends no vectors in base64: they come as numbers, which takes four times the traffic",
    ),
    Option(
        name="encoding_format",
        is_in=lambda request: "encoding_format" in request,
        named=_ENCODING_NAMES,
        without="takes no encoding_format: vectors come as it likes",
    ),
    Option(
        name="index",
        is_in=lambda _request: False,
        named=re.compile(r"(?!)"),
        without="does not number its vectors: they are taken in the order of the texts",
    ),
)
# Options that may be left out on trial, not those that merely rename the answer's limit.
_OPTIONAL = frozenset(option.name for option in OPTIONS) - {"max_tokens", "index"}
_PLAIN = "plain"
_WITHOUT = {option.name: option.without for option in OPTIONS} | {
    _PLAIN: "refuses something and does not say what: it is asked without all that a request can do without"
}


class Learned:
    """The unsupported options of endpoints and models, as learned by this process; threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left_out: dict[tuple[str, str], frozenset[str]] = {}
        self._answered: set[tuple[str, str]] = set()

    def left_out(self, url: str, model: str) -> frozenset[str]:
        """Return the names of the options that are left out for a model."""
        return self._left_out.get((url, model), frozenset())

    def has_answered(self, url: str, model: str) -> bool:
        """Tell whether a model has answered a request, so that it supports all options not left out by now."""
        return (url, model) in self._answered

    def record(self, url: str, model: str, names: Iterable[str], *, answered: bool = False) -> None:
        """Record options to leave out for a model, and log new ones."""
        with self._lock:
            known = self._left_out.get((url, model), frozenset())
            new = frozenset(names) - known
            self._left_out[url, model] = known | new
            if answered:
                self._answered.add((url, model))
        for name in _reported(new):
            log.info("endpoint_learned", endpoint=url, model=model, option=name, learned=_WITHOUT[name])

    def sentences(self) -> list[str]:
        """Describe what each endpoint does not support, and what is done instead."""
        with self._lock:
            noted = sorted(self._left_out.items())
        return [
            f"{model} at {url} {_WITHOUT[name]}" for (url, model), names in noted for name in _reported(names)
        ]

    def clear(self) -> None:
        """Forget everything, so that all options are tried again."""
        with self._lock:
            self._left_out.clear()
            self._answered.clear()


LEARNED = Learned()


class Refused(Exception):
    """An endpoint's refusal; `words` are its message, without keys."""

    def __init__(self, status: int, words: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status
        self.words = words
        self.headers = headers


class OpenAIEndpoint:
    """One model of one endpoint."""

    def __init__(self, url: str | None, key: str | None, model: str) -> None:
        """Set up without connecting. Raises `SettingsError` for an invalid URL."""
        self._url = (url or OPENAI_URL).rstrip("/")
        parts = urlsplit(self._url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise SettingsError(
                "BACKSCROLL_OPENAI_BASE_URL must look like http://127.0.0.1:11434/v1 or https://api.openai.com/v1"
            )
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.address = f"{host}:{port}"
        # for messages
        self.url = without_secrets(self._url)
        self.model = model
        self._key = key

    async def ask(
        self, path: str, write: Callable[[frozenset[str]], Request], *, max_bytes: int
    ) -> dict[str, Any]:
        """Return the answer's JSON; `write` makes the request without the options of these names.

        A refused option is left out and the request repeated: once for each option, and once more if the refusal names
        none of them and the model has never answered. Raises `Refused`, `ProviderUnavailable` (it cannot be
        reached) or `ProviderFailed` (its answer cannot be read).
        """
        without = LEARNED.left_out(self.url, self.model)
        on_trial: frozenset[str] = frozenset()
        while True:
            request = write(without | on_trial)
            try:
                answer = await self._post(path, request, max_bytes)
            except Refused as refused:
                option = _refused_option(refused, request)
                if option is not None and option not in without:
                    LEARNED.record(self.url, self.model, [option])
                    without |= {option}
                elif (
                    not on_trial
                    and not LEARNED.has_answered(self.url, self.model)
                    and _may_mean_anything(refused)
                    and (optional := _optional(write, without))
                ):
                    on_trial = optional | {_PLAIN}
                else:
                    raise
            else:
                LEARNED.record(self.url, self.model, without | on_trial, answered=True)
                return answer

    async def close(self) -> None:
        """Close its connections."""
        if "_client" in vars(self):
            await self._client.aclose()

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        return http_client(self._url)

    async def _post(self, path: str, request: Request, max_bytes: int) -> dict[str, Any]:
        answer = await post(
            self._client,
            f"{self._url}/{path}",
            request,
            server=self.url,
            setting="BACKSCROLL_OPENAI_BASE_URL",
            max_bytes=max_bytes,
            headers={"Authorization": f"Bearer {self._key or 'none'}"},
        )
        if not answer.is_success:
            raise self._refusal(answer.status, answer)
        try:
            parsed = json.loads(answer.body)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise ProviderFailed(f"{self.url} gave an answer that cannot be read")
        if error := parsed.get("error"):
            # routers answer 200 with the status of the provider behind them in the body
            code = error.get("code") if isinstance(error, dict) else None
            raise self._refusal(code if isinstance(code, int) and 400 <= code < 600 else 502, answer)
        return parsed

    def _refusal(self, status: int, answer: Answer) -> Refused:
        # a server's message may quote the key, whatever the status
        words = "" if status in UNAUTHORIZED else answer.words()
        if self._key:
            before, *after = words.split(self._key[:_KEY_CHARS])
            words = "(the key)".join([before, *(_REST_OF_KEY.sub("", part, count=1) for part in after)])
        return Refused(status, words, answer.headers)


def _reported(names: frozenset[str]) -> list[str]:
    """Return the options to report as left out; of those left out on trial, the refused one is unknown."""
    return sorted(names - _OPTIONAL if _PLAIN in names else names)


def _refused_option(refused: Refused, request: Request) -> str | None:
    """Return the name of the option of a request that a refusal is about."""
    words = refused.words.lower()
    if refused.status not in _REFUSED or is_too_long(words):
        return None
    return next((o.name for o in OPTIONS if o.is_in(request) and o.named.search(words)), None)


def _may_mean_anything(refused: Refused) -> bool:
    """Tell whether a refusal that names no option may be about any of them."""
    words = refused.words.lower()
    is_about_it = refused.status in _ABOUT_THE_REQUEST or (
        refused.status in _REFUSED and "parameters" in words
    )
    return is_about_it and not is_too_long(words)


def _optional(write: Callable[[frozenset[str]], Request], without: frozenset[str]) -> frozenset[str]:
    """Return the further options that a request can do without; leaving one out may add another."""
    names: frozenset[str] = frozenset()
    while (
        more := {o.name for o in OPTIONS if o.name in _OPTIONAL and o.is_in(write(without | names))} - names
    ):
        names |= more
    return names
