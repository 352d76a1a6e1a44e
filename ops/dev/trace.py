"""The way of one question: every function of Backscroll that it enters, in order, with times."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, event

from ops.dev import shipped
from ops.dev.eval.samples import read_chat
from ops.dev.figures import Report, Say
from schemas.settings import Settings

CHAT = "harbour_house"
BUDGET = 2000
_PACKAGES = ("pipeline", "schemas", "workers")


@dataclass
class Entered:
    """A function that was entered."""

    module: str
    name: str
    calls: int = 0
    # with what it called, while it was outermost
    milliseconds: float = 0.0
    depth: int = 0
    began: float = 0.0


@contextmanager
def entered() -> Iterator[dict[CodeType, Entered]]:
    """Record the functions that the body enters, in order of their first call."""
    functions: dict[CodeType, Entered] = {}

    def profile(frame: FrameType, event: str, _: object) -> None:
        code, module = frame.f_code, str(frame.f_globals.get("__name__", ""))
        # of comprehensions and lambdas, and what dataclasses generate, nobody reads the code
        if (
            event not in {"call", "return"}
            or code.co_name.startswith("<")
            or code.co_filename.startswith("<")
        ):
            return
        if module.partition(".")[0] not in _PACKAGES:
            return
        function = functions.get(code)
        if event == "call":
            if function is None:
                function = functions[code] = Entered(module, code.co_qualname.replace(".<locals>", ""))
            function.calls += 1
            function.depth += 1
            if function.depth == 1:
                function.began = perf_counter()
        elif function is not None:
            function.depth -= 1
            if function.depth == 0:
                function.milliseconds += 1000 * (perf_counter() - function.began)

    sys.setprofile(profile)
    try:
        yield functions
    finally:
        sys.setprofile(None)


@contextmanager
def run_statements() -> Iterator[list[str]]:
    """Record the SQL that the body runs, with its values in it: psql runs it for a session with `app.tenant_id` set."""
    statements: list[str] = []

    def record(_: Connection, cursor: Any, statement: str, values: Any, *__: Any) -> None:
        driver = cursor.connection
        statements.append(psycopg.ClientCursor(driver).mogrify(statement, values))

    event.listen(Engine, "before_cursor_execute", record)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", record)


def trace(settings: Settings, question: str, profile: str, say: Say) -> Report:
    """Fill a sample chat, put a question to it twice, and trace the second time; the SQL is that of a third."""
    with shipped.temporary(settings) as backscroll:
        sample = read_chat(CHAT)
        backscroll.fill(sample.chat, sample.messages, say)
        options = {"profile": profile, "include_history": True, "explain": False}
        options["user_id"] = sample.messages[0].sender_id
        ask = partial(backscroll.ask, sample.chat.chat_id, question, BUDGET, **options)
        ask()
        with entered() as functions:
            ask()
        with run_statements() as statements:
            ask()
    steps = [step for step in functions.values() if step.module != "ops.dev.shipped"]
    found = {
        "functions": len(steps),
        "modules": len({step.module for step in steps}),
        "of_recall": len({step.module for step in steps if step.module.startswith("pipeline.recall")}),
        "statements": len(statements),
    }
    way = [
        {
            "module": module,
            "functions": ", ".join(
                f"{step.name}{f' ×{step.calls}' if step.calls > 1 else ''} {step.milliseconds:.2f}"
                for step in run
            ),
        }
        for module, run in groupby(steps, key=lambda step: step.module)
    ]
    return Report(
        found=found | {"way (ms, with what was called)": way, "sql": statements}, only_in_json=["sql"]
    )
