"""Embed with a model behind OpenAI's protocol (`POST /v1/embeddings`): OpenAI, vLLM, llama.cpp's server and others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipeline.clients.http_calls import http_client, refusal
from schemas.errors import ProviderFailed, ProviderUnavailable, SettingsError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PROVIDER = "openai"
DEFAULT_MODEL = "text-embedding-3-small"
OPENAI_URL = "https://api.openai.com/v1"


class OpenAIServer:
    """One model of one server."""

    provider = PROVIDER

    def __init__(
        self, url: str | None, key: str | None, model: str, *, dimensions: int | None = None
    ) -> None:
        """Set up without a call. Raises `SettingsError` if OpenAI is to be asked without a key."""
        if url is None and not key:
            raise SettingsError(
                "BACKSCROLL_EMBEDDING_PROVIDER=openai wants BACKSCROLL_OPENAI_API_KEY, or for another server "
                "BACKSCROLL_OPENAI_BASE_URL."
            )
        # takes a second, which the first question should not wait for
        import openai  # noqa: F401

        self.url = (url or OPENAI_URL).rstrip("/")
        self._key = key
        self._model = model
        self._options: dict[str, Any] = {} if dimensions is None else {"dimensions": dimensions}

    async def embed(self, texts: Sequence[str]) -> list[Any]:
        import openai

        server = f"{PROVIDER} at {self.url}"
        try:
            response = await self._client.embeddings.create(
                model=self._model, input=list(texts), **self._options
            )
            found = sorted(response.data, key=lambda each: each.index)
            return [each.embedding for each in found]
        except openai.APIStatusError as error:
            raise refusal(
                error.status_code,
                error.message,
                error.response.headers,
                server=server,
                key="set BACKSCROLL_OPENAI_API_KEY to a key that it takes",
                missing=f"it has no model {self._model}, or no /embeddings: check BACKSCROLL_EMBEDDING_MODEL and "
                "BACKSCROLL_OPENAI_BASE_URL, which often ends in /v1",
            ) from error
        except openai.APIConnectionError as error:
            raise ProviderUnavailable(
                f"{server} cannot be reached ({error.__cause__ or error}): start it, or set "
                "BACKSCROLL_OPENAI_BASE_URL to where it is"
            ) from error
        except (openai.OpenAIError, ValueError, TypeError, AttributeError, LookupError) as error:
            # the package looks into an answer before it checks it
            raise ProviderFailed(f"{server} answered what cannot be read: {type(error).__name__}") from error

    async def close(self) -> None:
        await self._client.close()

    @cached_property
    def _client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        # retries are the job's: here they would take the time of a question
        return AsyncOpenAI(
            base_url=self.url,
            api_key=self._key or "none",
            max_retries=0,
            timeout=None,
            http_client=http_client(self.url),
        )
