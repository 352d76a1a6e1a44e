"""Embed with a model of an Ollama server, over its own protocol (`POST /api/embed`)."""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import httpx2

from pipeline.clients.http_calls import MAX_VECTORS_BYTES, http_client, post, refusal
from schemas.errors import ProviderFailed
from schemas.server_urls import without_secrets

PROVIDER = "ollama"
DEFAULT_MODEL = "nomic-embed-text"


class OllamaServer:
    """One model of one server, which truncates texts that are too long for the model."""

    provider = PROVIDER

    def __init__(self, url: str, model: str, *, dimensions: int | None = None) -> None:
        self._url = url.rstrip("/")
        # for messages
        self.url = without_secrets(self._url)
        self._model = model
        self._options = {} if dimensions is None else {"dimensions": dimensions}

    async def embed(self, texts: Sequence[str]) -> list[Any]:
        answer = await post(
            self._client,
            f"{self._url}/api/embed",
            {"model": self._model, "input": list(texts), **self._options},
            server=f"{PROVIDER} at {self.url}",
            setting="BACKSCROLL_OLLAMA_URL",
            max_bytes=MAX_VECTORS_BYTES,
        )
        if not answer.is_success:
            raise refusal(
                answer.status,
                answer.words(),
                answer.headers,
                server=f"{PROVIDER} at {self.url}",
                key="what is before it wants a login, which can be part of BACKSCROLL_OLLAMA_URL",
                missing=f"it has no model {self._model} (`ollama pull {self._model}`), or no /api/embed: check "
                "BACKSCROLL_EMBEDDING_MODEL and BACKSCROLL_OLLAMA_URL",
            )
        try:
            vectors = json.loads(answer.body)["embeddings"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ProviderFailed(f"{PROVIDER} at {self.url} answered no embeddings") from error
        if not isinstance(vectors, list):
            raise ProviderFailed(f"{PROVIDER} at {self.url} answered no list of embeddings")
        return vectors

    async def close(self) -> None:
        await self._client.aclose()

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        return http_client(self._url)
