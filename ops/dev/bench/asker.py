"""One Backscroll on a database of its own, told what to do line by line: the child process of `askers`.

It is run as a file by the environment of its checkout. Each line on its input is a JSON object whose `do` names a
function below; each line on its output is what that returned.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from subprocess import Popen
from typing import Any

from pydantic import SecretStr
from sqlalchemy import event
from sqlalchemy.engine import Engine

from ops import connection
from ops.dev import shipped
from ops.dev.embedders import WordMeansEmbedder
from ops.dev.shipped import Shipped
from ops.local import processes
from pipeline.recall import build_context
from pipeline.store.connections import trips
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery

_USER = "bench:0"
_BUDGET = 2000
PROCESSES = 2
"""Processes of the HTTP API."""


class Asker:
    """What the lines of the input do."""

    def __init__(self, backscroll: Shipped) -> None:
        self.backscroll = backscroll
        self.model = backscroll.resources.embedder
        self.statements = 0
        self.serving: list[Popen[bytes]] = []
        event.listen(Engine, "before_cursor_execute", self._count)
        # what goes past SQLAlchemy, in the versions where something does
        for name in ("begin", "send"):
            if hasattr(trips, name):
                setattr(trips, name, self._counted(getattr(trips, name)))

    def _count(self, *_: object) -> None:
        self.statements += 1

    def _counted(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Count the statements of a trip, which are its last argument, or one."""

        def sent(*given: Any) -> Any:
            self.statements += len(given[-1]) if isinstance(given[-1], list) else 1
            return send(*given)

        return sent

    def fill(self, chat: str, messages: Sequence[dict[str, Any]], by_words: bool) -> None:
        """Bring a chat in, embedded by the model or as means of its words' vectors."""
        if by_words and self.backscroll.resources.embedder is self.model:
            self.backscroll.resources.embedder = WordMeansEmbedder(self.model)
        said = [MessageIn.model_validate(message) for message in messages]
        self.backscroll.fill(ChatIn(chat_id=chat, title=chat), said, lambda _: None)

    def ready(self) -> None:
        """Do what autovacuum and the doctor do."""
        self.backscroll.resources.embedder = self.model
        self.backscroll.vacuum()
        self.backscroll.index()
        # what filling left in this process is in no process that serves contexts: to walk it takes 0.1 s
        self.backscroll.resources.embedder.embed_query("ready")
        gc.collect()
        gc.freeze()

    def ask(self, chat: str, query: str) -> dict[str, float]:
        """Build a context; how long it took, its statements, and the processor time of this process, in ms."""
        asked = ContextQuery(chat_id=chat, query=query, budget_tokens=_BUDGET, user_id=_USER)
        self.statements = 0
        began, cpu = time.perf_counter(), time.process_time()
        build_context(
            self.backscroll.database,
            self.backscroll.tenant,
            asked,
            embedder=self.model,
            settings=self.backscroll.settings,
        )
        return {
            "ms": (time.perf_counter() - began) * 1000,
            "cpu_ms": (time.process_time() - cpu) * 1000,
            "statements": self.statements,
        }

    def serve(self, port: int, key: str) -> None:
        """Start the HTTP API on this database."""
        served = self.backscroll.settings.model_copy(
            update={
                "port": port,
                "host": "127.0.0.1",
                "api_key": SecretStr(key),
                "api_processes": PROCESSES,
                # nothing is accepted, so nobody is woken up
                "redis_url": SecretStr("redis://127.0.0.1:1/0"),
            }
        )
        environment = os.environ | processes.environment(served)
        self.serving.append(Popen(processes.api_command(served), env=environment, stdout=sys.stderr))

    def stop(self) -> None:
        """End the HTTP API."""
        for each in self.serving:
            each.terminate()
            each.wait(30)
        self.serving.clear()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    # whatever else is printed goes to the error output
    os.dup2(2, 1)
    with shipped.temporary(connection.configured()) as backscroll:
        asker = Asker(backscroll)
        try:
            for line in sys.stdin:
                given = json.loads(line)
                answer = getattr(asker, given.pop("do"))(**given)
                print(json.dumps(answer), file=answers, flush=True)
        finally:
            asker.stop()


if __name__ == "__main__":
    main()
