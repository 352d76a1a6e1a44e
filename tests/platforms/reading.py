"""Runs a parser and sorts what it yields."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ops.source import open_source
from pipeline.platforms.records import (
    Ambiguous,
    Broken,
    ImportOptions,
    Notice,
    Parsed,
    Record,
    Skipped,
    Times,
    Unread,
)
from schemas.messages import ChatIn, MessageIn

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass
class Read:
    """What a parser yielded, by kind, each in its order."""

    chats: list[ChatIn] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    # by which clocks times were read
    times: list[str] = field(default_factory=list)
    ambiguous: list[Ambiguous] = field(default_factory=list)

    @property
    def messages(self) -> list[MessageIn]:
        return [record.message for record in self.records]

    @property
    def contents(self) -> list[str]:
        return [message.content for message in self.messages]

    @property
    def ids(self) -> list[str]:
        return [message.external_id for message in self.messages]


def sort(parsed: Iterable[Parsed]) -> Read:
    """Everything a parser yields; fails when a message comes before its chat."""
    read, known = Read(), set()
    for item in parsed:
        match item:
            case ChatIn():
                read.chats.append(item)
                known.add(item.chat_id)
            case Record():
                assert item.chat_id in known
                read.records.append(item)
            case Skipped():
                read.skipped.append(item)
            case Unread():
                read.unread.append(item)
            case Broken():
                read.broken.append(item)
            case Notice(text=text):
                read.notices.append(text)
            case Times(text=text):
                read.times.append(text)
            case Ambiguous():
                read.ambiguous.append(item)
    return read


def read_path(path: Path | str, **options: str) -> Read:
    """A file, folder or zip, by its path or its name among the fixtures."""
    with open_source(FIXTURES / path, ImportOptions(**options)) as source:  # type: ignore[arg-type]
        return sort(source.records())


def of_each_kind(platform: str) -> pytest.MarkDecorator:
    """A story of each `example` of what a platform writes beside plain texts: see `fixtures/kinds.jsonl`."""
    lines = (FIXTURES / "kinds.jsonl").read_text("utf-8").splitlines()
    return pytest.mark.parametrize(
        "example", [each for each in map(json.loads, lines) if each["platform"] == platform]
    )


def require(example: dict[str, Any], read: Read) -> None:
    """It is kept as text, or counted or named by what it is, as the example says."""
    assert read.contents == example["contents"]
    assert [skipped.reason for skipped in read.skipped] == example.get("skipped", [])
    unread = [[each.platform, each.kind, each.known] for each in read.unread]
    assert (unread, read.broken) == (example.get("unread", []), [])
