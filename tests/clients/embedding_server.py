"""A server of embeddings on the loopback address that speaks both protocols, with faults that a story asks for.

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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pipeline.clients.deterministic import DeterministicEmbedder
from schemas.errors import ProviderUnavailable
from schemas.vectors import Vector

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
    "who are you": (401, {}, "incorrect API key provided: sk-secret"),
    "no such model": (404, {}, "model not found"),
    "too long": (400, {}, "the input length exceeds the context length"),
    "wrong": (400, {}, "invalid request"),
    "moved": (307, {"Location": "http://127.0.0.1:1/"}, ""),
}
"""Faults that have a status, headers and a reason."""
HANGS, DRIPS, CLOSES = "hangs", "drips", "closes"


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """A running server, at a free port."""
    state = EmbeddingServer()
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing: tests look at `asked`."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            state.asked.append(Asked(texts=texts, body=body, authorization=self.headers["Authorization"]))
            is_meant = any(state.word in text for text in texts)
            fault = state.fault if is_meant else None
            if fault == CLOSES:
                self.close_connection = True
            elif fault == HANGS:
                over.wait(60)
                self._send(200, self._answer(body, texts, None))
            elif fault in RUBBISH:
                self._send(200, RUBBISH[fault])
            elif fault in REFUSALS:
                status, headers, said = REFUSALS[fault]
                self._send(status, json.dumps({"error": {"message": said}}).encode(), headers)
            else:
                self._send(200, self._answer(body, texts, fault), drips=fault)

        def _answer(self, body: dict[str, Any], texts: list[str], fault: str | None) -> bytes:
            made: list[Any] = state.vectors(texts, body.get("dimensions"))
            made = SPOILT[fault](made) if fault in SPOILT else made
            if self.path == "/api/embed":
                return json.dumps({"model": body["model"], "embeddings": made}).encode()
            if body.get("encoding_format") == "base64":
                made = [base64.b64encode(array("f", vector).tobytes()).decode() for vector in made]
            data = [{"object": "embedding", "index": n, "embedding": each} for n, each in enumerate(made)]
            # a server may answer in any order, and says which is which
            return json.dumps({"object": "list", "model": body["model"], "data": data[::-1]}).encode()

        def _send(
            self, status: int, answer: bytes, headers: dict[str, str] | None = None, drips: str | None = None
        ) -> None:
            given = {
                "Content-Type": "application/json",
                "Content-Length": str(len(answer)),
                **(headers or {}),
            }
            lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
            head = f"HTTP/1.1 {status} So\r\n{lines}\r\n".encode()
            try:
                self.wfile.write(head)
                for byte in answer if drips == DRIPS else ():
                    self.wfile.write(bytes([byte]))
                    if over.wait(0.05):
                        return
                self.wfile.write(b"" if drips == DRIPS else answer)
            except OSError:
                # who asked has gone
                self.close_connection = True

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Nothing: a connection that ends is a story's own doing."""

    server = Server(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def elapsed(call: Callable[[], object]) -> float:
    """Seconds that a call takes, whatever comes of it."""
    began = time.monotonic()
    with suppress(ProviderUnavailable):
        call()
    return time.monotonic() - began
