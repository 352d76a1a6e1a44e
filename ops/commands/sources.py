"""Opens what people want to import, a file, a folder or a zip, and hands it to the parser of its format."""

import io
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Self

from ops.commands import streams
from pipeline.platforms import discord, formats, jsonlines, slack, telegram, whatsapp
from pipeline.platforms.formats import Format
from pipeline.platforms.records import ImportOptions, Parsed
from schemas.errors import InvalidInput

_READABLE = (".txt", ".json", ".jsonl", ".ndjson")
# what the platforms themselves call their file, inside a zip or a folder
_WELL_KNOWN = ("_chat.txt", "result.json")
# a Slack export, perhaps in one more folder, and no deeper: somebody may give a whole disk by mistake
_DEPTHS = ("*", "*/*.json", "*/*/*.json")
_BUFFER_BYTES = 256 * 1024
# One day of one Slack channel is read whole; a zip can pretend to be small.
MAX_SLACK_FILE_BYTES = 256 * 1024 * 1024


@dataclass(kw_only=True)
class _Container:
    """The files of a folder or zip by their path with slashes, or one file by its name."""

    # the sizes in bytes, unpacked
    sizes: dict[str, int]
    open: Callable[[str], IO[bytes]]
    close: Callable[[], None] = lambda: None


@dataclass(kw_only=True)
class Source:
    """Something to import. It can be read several times; each `records()` starts from the beginning.

    While it is read, `position` of `size` bytes are done. A context manager: a zip is closed at its end.
    """

    # what the user calls it, for messages
    name: str
    format: Format
    options: ImportOptions
    size: int
    position: int = 0
    _container: _Container = field(repr=False)
    # the one file to read; a Slack export has several
    _member: str | None = None

    def records(self) -> Iterator[Parsed]:
        """What the source holds, in its order; see `pipeline.platforms.records`.

        Raises `InvalidInput` when the file can no longer be read.
        """
        self.position = 0
        if self._member is None:
            yield from slack.parse(self._container.sizes, self._read, self.options)
            return
        with _opened(self._container, self._member, self._advance) as stream:
            match self.format:
                case "telegram":
                    yield from telegram.parse(stream, self.options)
                case "discord":
                    yield from discord.parse(stream, self.options)
                case "jsonl":
                    yield from jsonlines.parse(streams.lines(stream), self.options)
                case _:
                    yield from whatsapp.parse(streams.lines(stream), self.options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()

    def _advance(self, count: int) -> None:
        self.position += count

    def _read(self, name: str) -> bytes:
        if (size := self._container.sizes[name]) > MAX_SLACK_FILE_BYTES:
            self._advance(size)
            raise InvalidInput(
                f"the file has {size} bytes; at most {MAX_SLACK_FILE_BYTES} are read", field="file"
            )
        with _opened(self._container, name, self._advance) as stream:
            return stream.read()


def open_source(path: Path, options: ImportOptions, *, format: Format | None = None) -> Source:  # noqa: A002
    """The source at this path: a file, a folder (Slack, Telegram Desktop) or a zip (Slack, WhatsApp, …).

    Raises `InvalidInput` that says what to do: nothing there, not readable, empty, not Unicode, none of the
    formats, or a WhatsApp export whose name does not tell the chat.
    """
    try:
        container = _container(path)
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise streams.unreadable(str(path), error) from error
    try:
        return _source(path, container, options, format)
    except BaseException:
        container.close()
        raise


def _source(path: Path, container: _Container, options: ImportOptions, wanted: Format | None) -> Source:
    if wanted in (None, "slack") and slack.root_of(container.sizes) is not None:
        size = sum(container.sizes[name] for name in slack.files_of(container.sizes))
        return Source(name=str(path), format="slack", options=options, size=size, _container=container)
    if wanted == "slack":
        raise InvalidInput(
            f"{path} is no Slack export: it has no channels.json, groups.json, mpims.json or dms.json; "
            "give the folder or zip that Slack made",
            field="file",
        )
    member = path.name if path.name in container.sizes else _export_in(path, container.sizes)
    name = str(path) if member == path.name else f"{path}: {member}"
    with _opened(container, member, lambda _: None) as stream:
        # a peek at the beginning; the rest is checked line by line when it is read
        head = streams.check_utf8(name, stream.read(formats.HEAD_CHARS))
    if not head.strip():
        raise InvalidInput(f"{name} is empty", field="file")
    found = wanted or formats.detect(name, head)
    return Source(
        name=name,
        format=found,
        options=_titled(path, member, options) if found == "whatsapp" else options,
        size=container.sizes[member],
        _container=container,
        _member=member,
    )


def _container(path: Path) -> _Container:
    if not path.exists():
        raise InvalidInput(f"{path} does not exist", field="file")
    if path.is_dir():
        inside = [item for pattern in _DEPTHS for item in path.glob(pattern) if item.is_file()]
        files = {item.relative_to(path).as_posix(): item for item in inside}
        sizes = {name: item.stat().st_size for name, item in files.items()}
        return _Container(sizes=sizes, open=lambda name: files[name].open("rb"))
    if path.stat().st_size == 0:
        raise InvalidInput(f"{path} is empty", field="file")
    if not zipfile.is_zipfile(path):
        return _Container(sizes={path.name: path.stat().st_size}, open=lambda _: path.open("rb"))
    archive = zipfile.ZipFile(path)
    members = [info for info in archive.infolist() if not info.is_dir()]
    sizes = {info.filename: info.file_size for info in members if not info.filename.startswith("__MACOSX/")}
    return _Container(sizes=sizes, open=archive.open, close=archive.close)


def _export_in(path: Path, names: Iterable[str]) -> str:
    """The one file of a folder or zip that is an export."""
    texts = sorted(name for name in names if name.lower().endswith(_READABLE))
    known = [name for name in texts if name.rpartition("/")[2].lower() in _WELL_KNOWN]
    named = [name for name in texts if "whatsapp" in name.rpartition("/")[2].lower()]
    for found in (known, named, texts):
        if len(found) == 1:
            return found[0]
    if texts:
        several = ", ".join(texts[:5]) + (" …" if len(texts) > 5 else "")
        raise InvalidInput(f"{path} holds several files ({several}); give the one to import", field="file")
    raise InvalidInput(
        f"{path} holds no export: neither a Slack export (channels.json and its like) nor Telegram's "
        "result.json, WhatsApp's _chat.txt or another .txt, .json or .jsonl file",
        field="file",
    )


def _titled(path: Path, member: str, options: ImportOptions) -> ImportOptions:
    """The options with the chat's title, which WhatsApp writes into the name of the file or the zip."""
    # any folder can hold a `_chat.txt`; a zip is named by the phone or by somebody who meant the chat
    around = path.name if path.is_file() or "whatsapp" in path.name.lower() else ""
    names = (member.rpartition("/")[2], around)
    title = options.title or next(filter(None, map(whatsapp.title_from_name, names)), None)
    if title is None and options.chat_id is None:
        raise InvalidInput(
            f"the name of {path} does not tell which chat it is; name it, as in --chat 'Harbour House'",
            field="chat",
        )
    return replace(options, title=title)


@contextmanager
def _opened(
    container: _Container, name: str, count: Callable[[int], None]
) -> "Iterator[io.BufferedReader[streams.Utf8]]":
    try:
        below = container.open(name)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise streams.unreadable(name, error) from error
    with below, io.BufferedReader(streams.Utf8(name, below, count), _BUFFER_BYTES) as stream:
        yield stream
