"""A server on this machine that answers as a test says."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.waiting import ended

Answered = tuple[int, Mapping[str, str], bytes | Iterator[bytes]]
Answer = Callable[[str, str, Message, bytes], Answered]
"""Answers a method, a path, headers and a body with a status, headers and a body, whole or in parts."""


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Serve it at the URL that this gives."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, headers, body = answer(self.command, self.path, self.headers, sent)
                self.send_response(status)
                # what comes in parts ends with the connection
                length = {"Connection": "close"}
                if isinstance(body, bytes):
                    length = {"Content-Length": str(len(body))}
                for name, value in {**headers, **length}.items():
                    self.send_header(name, value)
                self.end_headers()
                for part in [body] if isinstance(body, bytes) else body:
                    self.wfile.write(part)
            except ConnectionError:
                # who asked has gone, or the story breaks the connection off
                self.close_connection = True

        do_POST = do_GET  # noqa: N815 - the server's name

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            ended(thread)
