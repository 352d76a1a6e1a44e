"""Embed with a model behind OpenAI's protocol (`POST /v1/embeddings`): OpenAI, vLLM, llama.cpp's server and others."""

import base64
import sys
from array import array
from collections.abc import Sequence
from typing import Any

from pipeline.clients.http_calls import MAX_VECTORS_BYTES, refusal
from pipeline.clients.openai.openai_endpoint import LEARNED, OpenAIEndpoint, Refused, Request
from schemas.errors import ProviderFailed, SettingsError

PROVIDER = "openai"
DEFAULT_MODEL = "text-embedding-3-small"


class OpenAIServer:
    """One model of one server."""

    provider = PROVIDER

    def __init__(
        self, url: str | None, key: str | None, model: str, *, dimensions: int | None = None
    ) -> None:
        """Set up without a call. Raises `SettingsError` for OpenAI without a key."""
        if url is None and not key:
            raise SettingsError(
                "BACKSCROLL_EMBEDDING_PROVIDER=openai wants BACKSCROLL_OPENAI_API_KEY, or for another server "
                "BACKSCROLL_OPENAI_BASE_URL."
            )
        self._endpoint = OpenAIEndpoint(url, key, model)
        self.url = self._endpoint.url
        self._model = model
        self._options: dict[str, Any] = {} if dimensions is None else {"dimensions": dimensions}

    async def embed(self, texts: Sequence[str]) -> list[Any]:
        def write(without: frozenset[str]) -> Request:
            request = {"model": self._model, "input": list(texts), **self._options}
            if "encoding_format" not in without:
                request["encoding_format"] = "float" if "base64" in without else "base64"
            return request

        server = f"{PROVIDER} at {self.url}"
        try:
            answer = await self._endpoint.ask("embeddings", write, max_bytes=MAX_VECTORS_BYTES)
            return [_decoded(item["embedding"]) for item in self._in_order(answer["data"])]
        except Refused as refused:
            raise refusal(
                refused.status,
                refused.words,
                refused.headers,
                server=server,
                key="set BACKSCROLL_OPENAI_API_KEY to a key that it takes",
                missing=f"it has no model {self._model}, or no /embeddings: check BACKSCROLL_EMBEDDING_MODEL and "
                "BACKSCROLL_OPENAI_BASE_URL, which often ends in /v1",
            ) from None
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ProviderFailed(f"{server} answered what cannot be read: {type(error).__name__}") from error

    async def close(self) -> None:
        await self._endpoint.close()

    def _in_order(self, data: list[Any]) -> list[Any]:
        """Return an answer's vectors in the order of the texts; vectors without an index keep their place."""
        # a missing index means 0: Gemini omits that of its first vector
        places = [item.get("index") or 0 for item in data]
        if len(set(places)) == len(places):
            return [item for _, item in sorted(zip(places, data, strict=True), key=lambda pair: pair[0])]
        if any(places):
            raise ProviderFailed(
                f"{PROVIDER} ({self._model}) at {self.url} numbers its vectors {places[:10]}, which does not say whose "
                "they are"
            )
        LEARNED.record(self.url, self._model, ["index"])
        return data


def _decoded(vector: Any) -> Any:
    """Decode a vector in base64: little-endian floats of four bytes."""
    if not isinstance(vector, str):
        return vector
    numbers = array("f", base64.b64decode(vector, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
