"""The tests themselves are in order: what several stories share is where neither of them is."""

import ast
from collections.abc import Iterator

from tests.conftest import CHECKOUT


def imported(source: str) -> Iterator[str]:
    """The full names of all that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def test_no_story_imports_what_another_module_of_stories_holds() -> None:
    files = {path: path.relative_to(CHECKOUT) for path in (CHECKOUT / "tests").rglob("*.py")}
    stories = {".".join(path.with_suffix("").parts) for path in files.values() if path.match("test_*")}
    wrong = [
        f"{path}: {name}"
        for file, path in files.items()
        for name in imported(file.read_text("utf-8"))
        # one that begins with a dot hides where it leads
        if name.startswith(".") or {name, name.rpartition(".")[0]} & stories
    ]
    assert wrong == [], "move it to tests/harness or a conftest.py"
