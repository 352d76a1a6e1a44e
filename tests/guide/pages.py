"""The README and the guide's pages, taken apart for the tests that hold them to the code."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.conftest import CHECKOUT

GUIDE = CHECKOUT / "ops" / "guide"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    """A page of Markdown."""

    path: Path

    def __str__(self) -> str:
        return self.path.stem

    @cached_property
    def text(self) -> str:
        """The page as it is."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        return _BLOCK.sub("", self.text)

    @cached_property
    def sentences(self) -> str:
        """The prose with its lines joined."""
        return " ".join(self.prose.split())

    @cached_property
    def code(self) -> list[str]:
        """What is between backticks in the prose."""
        return re.findall(r"`([^`]+)`", self.prose)

    @cached_property
    def anchors(self) -> set[str]:
        """The anchors of the headings, as GitHub makes them."""
        headings = re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    @cached_property
    def links(self) -> list[tuple[str, str]]:
        """Targets of links inside the project, each with its anchor or an empty text."""
        return re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", self.prose)

    def blocks(self, language: str) -> list[str]:
        """The fenced blocks of a language."""
        return [body for name, body in _BLOCK.findall(self.text) if name == language]

    def shell(self) -> Iterator[list[str]]:
        """The words of each command in the `bash` blocks, up to a pipe or a redirection."""
        for body in self.blocks("bash"):
            held = ""
            for line in body.replace("\\\n", " ").splitlines():
                held += line + "\n"
                try:
                    words = shlex.split(held, comments=True)
                except ValueError:
                    continue  # a quotation goes on in the next line
                held = ""
                yield from _piped(words)

    def table(self, heading: str) -> list[list[str]]:
        """The rows of the one table whose first column has this heading."""
        (table,) = re.findall(rf"^\| {heading} \|.*?(?=\n\n|\Z)", self.prose, re.MULTILINE | re.DOTALL)
        return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in table.splitlines()[2:]]

    def section(self, heading: str) -> str:
        """The prose from a heading to the next one of its level or above."""
        level, _, _ = heading.partition(" ")
        (found,) = re.findall(
            rf"^{re.escape(heading)}$.*?(?=^#{{1,{len(level)}}} |\Z)", self.prose, re.MULTILINE | re.DOTALL
        )
        return str(found)


def _piped(words: list[str]) -> Iterator[list[str]]:
    held: list[str] = []
    for before, word in zip(["", *words], [*words, "|"], strict=True):
        if before == ">":
            continue  # a file
        if word in {"|", ">", "&&"}:
            yield held
            held = []
        else:
            held.append(word)


README = Page(CHECKOUT / "README.md")
PAGES = [README, *(Page(path) for path in sorted(GUIDE.glob("*.md")))]


def page(name: str) -> Page:
    """The guide's page of this name."""
    return Page(GUIDE / f"{name}.md")
