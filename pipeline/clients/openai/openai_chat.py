"""Ask a language model behind an endpoint that speaks OpenAI's protocol: OpenAI, Ollama, vLLM, llama.cpp and others.

A call is sent once, and again only without what the endpoint refuses; further retries are the caller's decision.
"""

import re
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pipeline.clients.http_calls import MAX_ERROR_CHARS, UNAUTHORIZED, Calls, retry_after
from pipeline.clients.openai.openai_endpoint import OpenAIEndpoint, Refused, Request
from pipeline.clients.protocols import Completion, Prompt
from pipeline.text.tokens import estimate
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable

MAX_ANSWER_BYTES = 4 * 1024**2
# A provider's retry time counts up to this.
MAX_RETRY_AFTER = 3600.0
# Without one: a rate limit is over soon, but an empty account or a wrong key must be fixed by somebody.
BUSY_SECONDS, MENDED_SECONDS = 20.0, 600.0
CLOSING_SECONDS = 3.0
# Thoughts of a reasoning model before its answer, if its server leaves them there; they may be cut off.
_THOUGHTS = re.compile(r"\s*<(think(?:ing)?)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)


class OpenAIChatModel:
    """One model of one endpoint; threads may share it."""

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        """Set up without connecting. Raises `SettingsError` for an invalid URL."""
        self._endpoint = OpenAIEndpoint(base_url, api_key, model)
        self.provider = self._endpoint.address
        self.model = model
        self._calls = Calls()

    def complete(self, prompt: Prompt, *, timeout_seconds: float) -> Completion:
        """Answer a prompt, within `timeout_seconds` in all, as `ChatModel.complete` does."""
        try:
            answer = self._calls.run(
                lambda: self._endpoint.ask(
                    "chat/completions", partial(self._request, prompt), max_bytes=MAX_ANSWER_BYTES
                ),
                timeout_seconds,
            )
        except TimeoutError as error:
            raise ProviderUnavailable(
                f"{self.provider} did not answer within {timeout_seconds:.0f} s"
            ) from error
        except Refused as refused:
            raise self._failure(refused) from None
        return self._completion(prompt, answer)

    def close(self) -> None:
        """Close its connections."""
        self._calls.run(self._endpoint.close, CLOSING_SECONDS)
        self._calls.close()

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

    def _failure(self, refused: Refused) -> Exception:
        status, words = refused.status, refused.words[:MAX_ERROR_CHARS]
        message = f"{self.provider} answered {status}"
        if status in UNAUTHORIZED:
            return ProviderUnavailable(
                f"{message}: set BACKSCROLL_OPENAI_API_KEY to a key that may use {self.model}",
                retry_after=MENDED_SECONDS,
            )
        message += f": {words}"
        if status == 404 or status < 400:
            return ProviderUnavailable(
                f"{message}. Check BACKSCROLL_OPENAI_BASE_URL (it usually ends in /v1) and that there is a model "
                f"{self.model}",
                retry_after=MENDED_SECONDS,
            )
        if status == 429:
            usual = MENDED_SECONDS if "insufficient_quota" in refused.words else BUSY_SECONDS
            return ProviderUnavailable(message, retry_after=_retry_after(refused) or usual)
        if status in {408, 409, 425} or status >= 500:
            return ProviderUnavailable(message, retry_after=_retry_after(refused))
        return ProviderRejected(message)

    def _completion(self, prompt: Prompt, answer: dict[str, Any]) -> Completion:
        try:
            choice = answer["choices"][0]
            message = choice["message"]
            text = message.get("content") or ""
            if message.get("refusal"):
                raise ProviderRejected(f"{self.model} refuses: {str(message['refusal'])[:MAX_ERROR_CHARS]}")
            text = text if isinstance(text, str) else "".join(part["text"] for part in text)
            usage = answer.get("usage") or {}
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
        )


def _retry_after(refused: Refused) -> float | None:
    """Return the provider's own retry time, within bounds; None without one."""
    seconds = retry_after(refused.headers, datetime.now(UTC))
    return None if seconds is None else min(max(seconds, 1.0), MAX_RETRY_AFTER)
