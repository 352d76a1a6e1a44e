"""A fake language model server that speaks OpenAI's protocol; it refuses connections until told to answer."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ops.local.embedded.ports import free_port


class ModelServer:
    """A port on which nothing listens, and from `answer` on a server that answers rubbish."""

    def __init__(self) -> None:
        self._port = free_port()
        self._server: ThreadingHTTPServer | None = None
        self.tokens = 0

    def settings(self) -> dict[str, str]:
        """Return the environment of a process that asks it for summaries."""
        return {
            "BACKSCROLL_SESSION_SUMMARY_MODEL": "gpt-4.1-mini",
            "BACKSCROLL_OPENAI_BASE_URL": f"http://127.0.0.1:{self._port}/v1",
            "BACKSCROLL_OPENAI_API_KEY": "of-no-use",
            # less than a lease
            "BACKSCROLL_SESSION_SUMMARY_TIMEOUT_SECONDS": "10",
        }

    def answer(self, tokens: int) -> None:
        """Answer from now on, with `tokens` tokens each time."""
        self.tokens = tokens
        if self._server is None:
            self._server = ThreadingHTTPServer(("127.0.0.1", self._port), self._handler())
            threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                choice = {"message": {"role": "assistant", "content": "{}"}, "finish_reason": "stop"}
                usage = {"prompt_tokens": model.tokens, "completion_tokens": 1}
                body = json.dumps({"choices": [choice], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        return Handler
