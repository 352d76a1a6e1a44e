"""Ask a language model behind an endpoint that speaks OpenAI's protocol: OpenAI, Ollama, vLLM, llama.cpp and others.

A call is sent once, and again only without what the endpoint refuses; further retries are the caller's decision.
"""

import re
from functools import partial
from urllib.parse import urlsplit

from pipeline.clients.openai.openai_endpoint import (
    OPENAI_URL,
    Answer,
    OpenAIEndpoint,
    Request,
    Server,
)
from pipeline.clients.protocols import Completion, Prompt
from pipeline.text.tokens import estimate
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable

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
        self._endpoint = OpenAIEndpoint(base_url or OPENAI_URL, api_key, model, Server(name=self.provider))

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
