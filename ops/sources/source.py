"""Open a file, folder or zip to import, and read it with the parser of its format."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from ops.sources import streams
from ops.sources.exports import Container, Export, choose, head, no_slack, open_container, opened
from pipeline.platforms import formats, slack, whatsapp
from pipeline.platforms.formats import Format
from pipeline.platforms.records import ImportOptions, Parsed
from schemas.errors import InvalidInput

# A day of a Slack channel is read whole, and a zip can hide its size.
MAX_SLACK_FILE_BYTES = 256 * 1024 * 1024
# Commas and brackets are as many as the values at least: these take some 400 MB, where a busy day has a million.
MAX_SLACK_FILE_VALUES = 10_000_000


@dataclass(kw_only=True)
class Source:
    """Something to import, read from the beginning by each `records()`; `position` of `size` bytes are done."""

    # the user's name of it, for messages
    name: str
    format: Format
    options: ImportOptions
    size: int
    position: int = 0
    _container: Container = field(repr=False)
    # the file to read; None for Slack, which has several
    _member: str | None = None
    # the other exports in the folder or zip
    others: "tuple[Export, ...]" = ()

    def records(self) -> Iterator[Parsed]:
        """Parse the source in its order; see `pipeline.platforms.records`. Raises `InvalidInput`."""
        self.position = 0
        if self._member is None:
            yield from slack.parse(self._container.sizes, self._read, self.options)
            return
        with opened(self._container, self._member, self._advance) as stream:
            if (of_bytes := formats.OF_BYTES.get(self.format)) is not None:
                yield from of_bytes(stream, self.options)
            else:
                yield from formats.OF_LINES[self.format](streams.lines(stream), self.options)

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
        with opened(self._container, name, self._advance) as stream:
            raw = stream.read()
        if (values := sum(map(raw.count, (b",", b"{", b"[")))) > MAX_SLACK_FILE_VALUES:
            raise InvalidInput(
                f"the file has some {values:,} values; at most {MAX_SLACK_FILE_VALUES:,} are read",
                field="file",
            )
        return raw


def open_source(path: Path, options: ImportOptions, *, format: Format | None = None) -> Source:  # noqa: A002
    """Open a file, a folder (Slack, Telegram Desktop) or a zip. Raises `InvalidInput`, which says what to do."""
    try:
        container = open_container(path)
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise streams.unreadable(str(path), error) from error
    try:
        return _source(path, container, options, format)
    except BaseException:
        container.close()
        raise


def _source(path: Path, container: Container, options: ImportOptions, wanted: Format | None) -> Source:
    chosen: Export | None = None
    others: tuple[Export, ...] = ()
    member = path.name
    if member not in container.sizes:
        chosen, others = choose(path, container, wanted)
        member = chosen.name
    name = str(path) if chosen is None or chosen.name in ("", ".") else f"{path}: {chosen.name}"
    if chosen is not None and chosen.format == "slack":
        size = sum(container.sizes[each] for each in slack.files_of(container.sizes))
        return Source(
            name=name, format="slack", options=options, size=size, others=others, _container=container
        )
    if wanted == "slack":
        raise no_slack(path)
    begins = head(container, member, name)
    if not begins.strip():
        raise InvalidInput(f"{name} is empty", field="file")
    found = wanted or formats.detect(name, begins)
    return Source(
        name=name,
        format=found,
        options=_titled(path, member, options) if found == "whatsapp" else options,
        size=container.sizes[member],
        others=others,
        _container=container,
        _member=member,
    )


def _titled(path: Path, member: str, options: ImportOptions) -> ImportOptions:
    """Complete the options by WhatsApp's name of the file or zip, which holds the chat's title."""
    # any folder can hold a `_chat.txt`; the name of a zip is the phone's, or was meant for the chat
    around = path.name if path.is_file() or "whatsapp" in path.name.lower() else ""
    folder, _, file = member.rpartition("/")
    names = (file, folder if "whatsapp" in folder.lower() else "", around)
    file_name = next(filter(whatsapp.title_from_name, names), None)
    if not (file_name or options.title or options.chat_id):
        raise InvalidInput(
            f"the name of {path} does not say which chat it is; name it, as in --chat 'Harbour House'",
            field="chat",
        )
    return replace(options, file_name=file_name)
