"""No story waits without end: each wait has a bound, and says what it waited for."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import rounds, until

WAITS = {"acquire", "communicate", "join", "result", "wait"}
PROGRAMS = {"subprocess.run", "subprocess.check_call", "subprocess.check_output"}


def unbounded(tree: ast.Module) -> Iterator[str]:
    """The calls that may wait for ever, and the loops that look again and again for as long."""
    # a class's own method of such a name has a bound inside
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            waits = node.func.attr in WAITS - own and not node.args and not node.keywords
            starts = ast.unparse(node.func) in PROGRAMS and "timeout" not in {k.arg for k in node.keywords}
            if waits or starts:
                yield f"{node.lineno}: {ast.unparse(node.func)}"
        elif isinstance(node, ast.While) and not isinstance(node.test, ast.NamedExpr):
            loop = ast.unparse(node)
            if "sleep(" in loop and "monotonic()" not in loop and "await " not in loop:
                yield f"{node.lineno}: {loop.partition(':')[0]}"


def test_every_wait_has_a_bound() -> None:
    folder = Path(__file__).parent
    trees = ((path.relative_to(folder), ast.parse(path.read_bytes())) for path in folder.rglob("*.py"))
    assert [f"{path}:{found}" for path, tree in trees for found in unbounded(tree)] == []


def test_what_does_not_come_about_fails_with_a_sentence() -> None:
    with pytest.raises(AssertionError, match=r"not within 0.1 s: the cows are home"):
        until(lambda: False, "the cows are home", seconds=0.1)
    with pytest.raises(AssertionError, match="not within 3 rounds: the book ends"):
        for _ in rounds("the book ends", most=3):
            pass
    assert until(lambda: "milk", "the cows are home") == "milk"
