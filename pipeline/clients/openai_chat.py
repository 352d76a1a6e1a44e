"""Ask a language model behind an endpoint that speaks OpenAI's protocol: OpenAI, Ollama, vLLM, llama.cpp and others.

The package `openai` is imported at the first call. A call is made once: whoever calls decides about another one.
"""

import json
import threading
import time
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pipeline.clients.http_calls import Calls, http_client, retry_after
from pipeline.clients.openai_embeddings import OPENAI_URL
from pipeline.clients.protocols import Completion, Prompt
from pipeline.text.tokens import estimate
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable, SettingsError

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

MAX_ANSWER_BYTES = 4 * 1024**2
MAX_REASON_CHARS = 300
# A provider's own word on when to come back is believed up to this.
MAX_RETRY_AFTER = 3600.0
# When it says nothing: a rate limit is over soon, an empty account or a wrong key has to be mended by somebody.
BUSY_SECONDS, MENDED_SECONDS = 20.0, 600.0
CLOSING_SECONDS = 3.0
# A refusal of an option of the request comes as one of these, not as one of its text; llama-cpp-python answers 500.
_OPTION_REFUSED = frozenset((400, 415, 422, 500, 501))
# What such refusals call the form of the answer: OpenAI and most others; llama.cpp; vLLM.
_FORM_NAMES = (
    "response_format",
    "json_schema",
    "json_object",
    "schema",
    "grammar",
    "structured output",
    "guided",
)


class OpenAIChatModel:
    """One model of one endpoint; threads may share it.

    What the endpoint refuses (a schema for the answer, JSON mode, a temperature) is left out from then on.
    """

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        """Set up without connecting. Raises `SettingsError` for a URL that is none."""
        self._base_url = base_url or OPENAI_URL
        parts = urlsplit(self._base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise SettingsError(
                "BACKSCROLL_OPENAI_BASE_URL must look like http://127.0.0.1:11434/v1 or https://api.openai.com/v1"
            )
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._provider = f"{host}:{port}"
        self._model = model
        self._api_key = api_key
        self._refused: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._calls = Calls()

    @property
    def model(self) -> str:
        """Return the provider's name of the model."""
        return self._model

    @property
    def provider(self) -> str:
        """Return the base URL's host and port."""
        return self._provider

    def complete(self, prompt: Prompt, *, timeout_seconds: float) -> Completion:
        """Answer a prompt, within `timeout_seconds` in all, as `ChatModel.complete` does."""
        from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

        deadline = time.monotonic() + timeout_seconds
        while True:
            refused = self._refused
            request = self._request(prompt, refused)
            try:
                body = self._calls.run(partial(self._send, request), deadline - time.monotonic())
            except (TimeoutError, APITimeoutError) as error:
                raise ProviderUnavailable(
                    f"{self._provider} did not answer within {timeout_seconds:.0f} s"
                ) from error
            except APIConnectionError as error:
                reason = _short(error.__cause__ or error)
                raise ProviderUnavailable(f"{self._provider} cannot be reached: {reason}") from error
            except APIStatusError as error:
                if not self._learn(error, request):
                    raise self._failure(error) from error
            except APIError as error:
                raise ProviderFailed(f"{self._provider} broke off its answer: {_short(error)}") from error
            else:
                return self._completion(prompt, body)

    def close(self) -> None:
        """Close its connections."""
        if "_client" in vars(self):
            self._calls.run(self._client.close, CLOSING_SECONDS)
        self._calls.close()

    @cached_property
    def _client(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI

        # without a key the package would look for one in the environment
        return AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key or "none",
            max_retries=0,
            timeout=None,
            http_client=http_client(self._base_url),
        )

    def _request(self, prompt: Prompt, refused: frozenset[str]) -> dict[str, Any]:
        roles = ("user", "assistant")
        said = [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(prompt.turns)]
        limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "system", "content": prompt.system}, *said],
            limit: prompt.max_tokens,
        }
        if "temperature" not in refused:
            request["temperature"] = 0
        if prompt.schema is not None and "json_schema" not in refused:
            schema = {"name": "answer", "strict": True, "schema": dict(prompt.schema)}
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif prompt.schema is not None and "json_object" not in refused:
            request["response_format"] = {"type": "json_object"}
        return request

    async def _send(self, request: dict[str, Any]) -> bytes:
        body = b""
        async with self._client.chat.completions.with_streaming_response.create(**request) as answer:
            async for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise ProviderFailed(
                        f"{self._provider} answered with more than {MAX_ANSWER_BYTES:,} bytes"
                    )
        return body

    def _learn(self, error: "APIStatusError", request: dict[str, Any]) -> bool:
        """Note which option of a request was refused, if any; tell whether to ask again without it."""
        if error.status_code not in _OPTION_REFUSED:
            return False
        told = f"{getattr(error, 'param', None) or ''} {error.message}".lower()
        form = request.get("response_format", {}).get("type")
        if form and any(name in told for name in _FORM_NAMES):
            option = form
        elif "max_tokens" in request and "max_completion_tokens" in told:
            option = "max_tokens"
        elif "temperature" in request and "temperature" in told:
            option = "temperature"
        else:
            return False
        with self._lock:
            self._refused |= {option}
        return True

    def _failure(self, error: "APIStatusError") -> Exception:
        status, reason = error.status_code, _short(error.message)
        what = f"{self._provider} answered {status}: {reason}"
        if status in {401, 403}:
            return ProviderUnavailable(
                f"{what}. Set BACKSCROLL_OPENAI_API_KEY to a key that may use {self._model}",
                retry_after=MENDED_SECONDS,
            )
        if status == 404 or status < 400:
            return ProviderUnavailable(
                f"{what}. Check BACKSCROLL_OPENAI_BASE_URL (it usually ends in /v1) and that there is a model "
                f"{self._model}",
                retry_after=MENDED_SECONDS,
            )
        if status == 429:
            spent = "insufficient_quota" in f"{getattr(error, 'code', '')} {error.message}"
            usual = MENDED_SECONDS if spent else BUSY_SECONDS
            return ProviderUnavailable(what, retry_after=_retry_after(error) or usual)
        if status in {408, 409, 425} or status >= 500:
            return ProviderUnavailable(what, retry_after=_retry_after(error))
        return ProviderRejected(what)

    def _completion(self, prompt: Prompt, body: bytes) -> Completion:
        try:
            answer = json.loads(body)
            choice = answer["choices"][0]
            message = choice["message"]
            text = message.get("content") or ""
            if message.get("refusal"):
                raise ProviderRejected(f"{self._model} refuses: {_short(message['refusal'])}")
            text = text if isinstance(text, str) else "".join(part["text"] for part in text)
            usage = answer.get("usage") or {}
            read, written = (int(usage.get(f"{kind}_tokens") or 0) for kind in ("prompt", "completion"))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ProviderFailed(f"{self._provider} gave an answer that cannot be read") from error
        if choice.get("finish_reason") == "content_filter":
            raise ProviderRejected(f"{self._provider} filtered the answer of {self._model}")
        return Completion(
            text=text,
            truncated=choice.get("finish_reason") == "length",
            input_tokens=read or sum(map(estimate, (prompt.system, *prompt.turns))),
            output_tokens=written or estimate(text),
        )


def _retry_after(error: "APIStatusError") -> float | None:
    """Return when the provider may be asked again by its own word, within reason; None without one."""
    seconds = retry_after(error.response.headers, datetime.now(UTC))
    return None if seconds is None else min(max(seconds, 1.0), MAX_RETRY_AFTER)


def _short(reason: object) -> str:
    return " ".join(str(reason).split())[:MAX_REASON_CHARS]
