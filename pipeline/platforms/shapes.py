"""What a file is, by its shape: the keys of its first objects, or what most of its first lines look like."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from pipeline.platforms import json_stream
from pipeline.platforms.records import ImportOptions, Parsed

HEAD_CHARS = 64 * 1024
"""Characters of a file's beginning that detection reads."""
_MAX_LINES = 100


class Sample:
    """The beginning of a file: its name, text, first lines, and the keys of its JSON by their paths."""

    def __init__(self, name: str, head: str) -> None:
        self.name, self.head = name, head
        self.lines = [line for line in head.splitlines() if line.strip()][:_MAX_LINES]
        raw = head.encode("utf-8", "replace")
        self.keys: dict[str, set[str]] = json_stream.keys(io.BytesIO(raw)) if head[:1] in ("{", "[") else {}

    def has(self, path: str, names: str) -> bool:
        """Tell whether objects at a path (with `*` for any) have these keys, of `a|b` either."""
        found = {key for at, keys in self.keys.items() if fnmatchcase(at, path) for key in keys}
        return all(found & set(name.split("|")) for name in names.split())


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a sample looks like: all that is given must hold."""

    # the keys of objects, by their path
    keys: Mapping[str, str] = field(default_factory=dict)
    # of lines that begin a message
    lines: str | Callable[[str], object] = ""
    # how many of the first lines do; one at least
    share: float = 0.25
    # somewhere in the text, and in the file's name
    head: str = ""
    name: str = ""

    def fits(self, sample: Sample) -> bool:
        """Tell whether a sample has this shape."""
        if not (re.search(self.head, sample.head) and re.search(self.name, sample.name)):
            return False
        if self.lines:
            begins = self.lines if callable(self.lines) else re.compile(self.lines).match
            if sum(map(bool, map(begins, sample.lines))) < max(1, len(sample.lines) * self.share):
                return False
        return all(sample.has(path, names) for path, names in self.keys.items())


@dataclass(frozen=True, kw_only=True)
class FilePlace:
    """Where a file of an export stands."""

    # the file, folder or zip that was given, and the file's path inside
    source: Path
    member: str
    # the bytes of another file of the export, if there is one
    read: Callable[[str], bytes | None]


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    """A format of exports: its parser, and how its files look."""

    name: str
    looks: tuple[Shape, ...] = ()
    # looks that are tried when nothing else fits
    loose: bool = False
    of_bytes: Callable[[IO[bytes], ImportOptions], Iterator[Parsed]] | None = None
    of_lines: Callable[[Iterable[str], ImportOptions], Iterator[Parsed]] | None = None
    # it has files for each chat, which make up one export
    several: bool = False
    # where its files stand below its own folder
    folders: tuple[str, ...] = ()
    # completes the options by what stands around a file
    placed: Callable[[ImportOptions, FilePlace], ImportOptions] = lambda options, _: options
    # the names of its other files, of which the user is told that they are not imported
    left_out: str = ""
