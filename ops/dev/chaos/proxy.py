"""A proxy of the HTTP API that turns some answers into those of something else, also where all was done."""

import http.client
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

TURNED = 0.2
HTML = b"<html><h1>Something went wrong</h1></html>"


@contextmanager
def between(port: int, seed: int, seconds: float, turned: Counter[str]) -> Iterator[str]:
    """Run a proxy of a port; give its URL, and count the answers that it turns by what they become."""
    rng = random.Random(seed)  # noqa: S311 - no secret

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer, headers = 502, HTML, {"Content-Type": "text/html"}
            kind = rng.choice(("500", "404", "200 HTML")) if rng.random() < TURNED else ""
            if not kind or rng.random() < 0.5:
                passed = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
                with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)) as api:
                    try:
                        api.request(self.command, self.path, body, passed)
                        response = api.getresponse()
                        status, answer, headers = response.status, response.read(), dict(response.headers)
                        kind = kind and f"{kind} after {status}"
                    except (OSError, http.client.HTTPException):
                        # there is no answer to turn
                        kind = ""
            if kind:
                turned[kind] += 1
                status, answer, headers = int(kind[:3]), HTML, {"Content-Type": "text/html"}
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() in ("content-type", "retry-after"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_PATCH = do_DELETE = do_POST  # noqa: N815 - the server's names

        def log_message(self, *_: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
