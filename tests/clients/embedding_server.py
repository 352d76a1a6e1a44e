"""A server of embeddings on the loopback address, with faults that a story asks for.

Vectors are those of the deterministic embedder, so that what is found by them makes sense.
"""

import base64
import json
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from pipeline.clients.deterministic import DeterministicEmbedder
from schemas.errors import ProviderUnavailable
from schemas.vectors import Vector
from tests.providers.http_server import Answered, serving

DIMENSIONS = 64


@dataclass(kw_only=True)
class Asked:
    """One request."""

    texts: list[str]
    body: dict[str, Any]
    authorization: str | None


@dataclass(kw_only=True)
class EmbeddingServer:
    """What it was asked, and how it answers: `fault` is the name of one, or None."""

    url: str = ""
    dimensions: int = DIMENSIONS
    fault: str | None = None
    # the fault befalls only requests with this word in one of their texts
    word: str = ""
    asked: list[Asked] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """All texts that it was asked to embed, in order."""
        return [text for each in self.asked for text in each.texts]

    def vectors(self, texts: Sequence[str], dimensions: int | None) -> list[Vector]:
        """The vectors that it answers, not of length 1."""
        model = DeterministicEmbedder(dimensions=dimensions or self.dimensions)
        return [[3 * value for value in vector] for vector in model.embed_documents(texts)]


SPOILT: dict[str, Callable[[list[Vector]], list[Any]]] = {
    "too few": lambda made: made[:-1],
    "too short": lambda made: [vector[:-1] for vector in made],
    "not a number": lambda made: [[float("nan"), *vector[1:]] for vector in made],
    "zeros": lambda made: [[0.0] * len(vector) for vector in made],
}
"""Faults of an answer that is well-formed."""
RUBBISH = {
    "not json": b"<html>welcome</html>",
    "another shape": b'{"embeddings": "none", "data": [{"embedding": "!!!", "index": 0, "object": "embedding"}]}',
    "empty": b"",
}
"""Faults of one that is not."""
REFUSALS: dict[str, tuple[int, dict[str, str], str]] = {
    "busy": (429, {"Retry-After": "7"}, "rate limit reached"),
    "broken": (500, {}, "internal error"),
    "overloaded": (503, {}, "no slot available"),
    "who are you": (401, {}, "incorrect API key provided: sk-secret"),
    "no such model": (404, {}, "model not found"),
    "too long": (400, {}, "the input length exceeds the context length"),
    "wrong": (400, {}, "invalid request"),
    "moved": (307, {"Location": "http://127.0.0.1:1/"}, ""),
}
"""Faults that have a status, headers and a reason."""
HANGS, CLOSES = "hangs", "closes"


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """A running server, at a free port."""
    state, over = EmbeddingServer(), threading.Event()

    def answer(_method: str, _path: str, headers: Message, sent: bytes) -> Answered:
        body = json.loads(sent)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        state.asked.append(Asked(texts=texts, body=body, authorization=headers["Authorization"]))
        fault = state.fault if any(state.word in text for text in texts) else None
        if fault == CLOSES:
            raise ConnectionAbortedError
        if fault == HANGS:
            over.wait(60)
        if fault in RUBBISH:
            return 200, {}, RUBBISH[fault]
        if fault in REFUSALS:
            status, more, said = REFUSALS[fault]
            return status, more, json.dumps({"error": {"message": said}}).encode()
        made: list[Any] = state.vectors(texts, body.get("dimensions"))
        made = SPOILT[fault](made) if fault in SPOILT else made
        if body.get("encoding_format") == "base64":
            made = [base64.b64encode(array("f", vector).tobytes()).decode() for vector in made]
        data = [{"object": "embedding", "index": n, "embedding": each} for n, each in enumerate(made)]
        # a server may answer in any order, and says which is which
        answered = {"object": "list", "model": body["model"], "data": data[::-1]}
        return 200, {}, json.dumps(answered).encode()

    with serving(answer) as state.url:
        try:
            yield state
        finally:
            over.set()


def elapsed(call: Callable[[], object]) -> float:
    """Seconds that a call takes, whatever comes of it."""
    began = time.monotonic()
    with suppress(ProviderUnavailable):
        call()
    return time.monotonic() - began
