"""A fake language model server that speaks OpenAI's protocol; it refuses connections until told to answer."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ops.local.embedded.ports import LOOPBACK, free_port


class ModelServer(ThreadingHTTPServer):
    """A port on which nothing listens, and from `answer` on a server that answers rubbish; it ends with the process."""

    def __init__(self) -> None:
        super().__init__((LOOPBACK, free_port()), _Rubbish, bind_and_activate=False)
        self.tokens = 0
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    def settings(self) -> dict[str, str]:
        """Return the environment of a process that asks it for summaries."""
        return {
            "BACKSCROLL_SESSION_SUMMARY_MODEL": "gpt-4.1-mini",
            "BACKSCROLL_OPENAI_BASE_URL": f"http://{LOOPBACK}:{self.server_address[1]}/v1",
            "BACKSCROLL_OPENAI_API_KEY": "of-no-use",
            # less than a lease
            "BACKSCROLL_SESSION_SUMMARY_TIMEOUT_SECONDS": "10",
        }

    def answer(self, tokens: int) -> None:
        """Answer from now on, with `tokens` tokens each time."""
        self.tokens = tokens
        if not self._thread.is_alive():
            self.server_bind()
            self.server_activate()
            self._thread.start()


class _Rubbish(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"message": {"role": "assistant", "content": "{}"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": self.server.tokens, "completion_tokens": 1}
        body = json.dumps({"choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""
