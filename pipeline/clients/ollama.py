"""Embed with a model of an Ollama server, by its own protocol (`POST /api/embed`)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import httpx2

from pipeline.clients.http_calls import http_client, refusal
from schemas.errors import ProviderFailed, ProviderUnavailable

PROVIDER = "ollama"
DEFAULT_MODEL = "nomic-embed-text"


class OllamaServer:
    """One model of one server, which cuts a text that is too long for the model at its end."""

    provider = PROVIDER

    def __init__(self, url: str, model: str, *, dimensions: int | None = None) -> None:
        self.url = url.rstrip("/")
        self._model = model
        self._options = {} if dimensions is None else {"dimensions": dimensions}

    async def embed(self, texts: Sequence[str]) -> list[Any]:
        body = {"model": self._model, "input": list(texts), **self._options}
        try:
            response = await self._client.post(f"{self.url}/api/embed", json=body)
        except httpx2.TransportError as error:
            raise ProviderUnavailable(
                f"{PROVIDER} at {self.url} cannot be reached ({error or type(error).__name__}): start it, or set "
                "BACKSCROLL_OLLAMA_URL to where it is"
            ) from error
        except httpx2.HTTPError as error:
            raise ProviderFailed(f"{PROVIDER} at {self.url} answered what cannot be read: {error}") from error
        if not response.is_success:
            raise refusal(
                response.status_code,
                response.text,
                response.headers,
                server=f"{PROVIDER} at {self.url}",
                key="what is before it wants a login, which can be part of BACKSCROLL_OLLAMA_URL",
                missing=f"it has no model {self._model} (`ollama pull {self._model}`), or no /api/embed: check "
                "BACKSCROLL_EMBEDDING_MODEL and BACKSCROLL_OLLAMA_URL",
            )
        try:
            answer = response.json()["embeddings"]
        except (ValueError, KeyError, TypeError) as error:
            raise ProviderFailed(f"{PROVIDER} at {self.url} answered no embeddings") from error
        if not isinstance(answer, list):
            raise ProviderFailed(f"{PROVIDER} at {self.url} answered no list of embeddings")
        return answer

    async def close(self) -> None:
        await self._client.aclose()

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        return http_client(self.url)
