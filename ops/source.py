"""Open a file, folder or zip to import, and read it with the parser of its format."""

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from ops import exports
from ops.exports import Container, Export, choose, head, no_slack, open_container, opened
from pipeline.platforms import formats
from pipeline.platforms import slack_export as slack
from pipeline.platforms.formats import Format
from pipeline.platforms.platform import FilePlace
from pipeline.platforms.records import Broken, ImportOptions, Notice, Parsed, Record, Skipped, Unread
from pipeline.platforms.whatsapp import whatsapp_export as whatsapp
from schemas.errors import InvalidInput

# A day of a Slack channel is read whole, and a zip can hide its size.
MAX_SLACK_FILE_BYTES = 256 * 1024 * 1024
# Commas and brackets are as many as the values at least: these take some 400 MB, where a busy day has a million.
MAX_SLACK_FILE_VALUES = 10_000_000

# What describes a chat beside it.
MAX_BESIDE_BYTES = 16 * 1024 * 1024


@dataclass(kw_only=True)
class ExportSource:
    """Something to import, read from the beginning by each `records()`; `position` of `size` bytes are done."""

    # the path as the user gave it, for messages
    name: str
    format: Format
    options: ImportOptions
    size: int
    position: int = 0
    _container: Container = field(repr=False)
    # the files to read, one after the other; none for Slack, which reads them itself
    _members: tuple[str, ...] = ()
    # the other exports in the folder or zip
    others: "tuple[Export, ...]" = ()

    def records(self) -> Iterator[Parsed]:
        """Parse the source in its order; see `pipeline.platforms.records`. Raises `InvalidInput`."""
        self.position = 0
        left_out = re.compile(formats.BY_NAME[self.format].left_out or "$^") if self._members else None
        for name in filter(left_out.search, sorted(self._container.sizes)) if left_out else ():
            yield Notice(text=f"{name} is not imported: it holds no chats.")
        if not self._members:
            yield from slack.parse(self._container.sizes, self._read, self.options)
        elif len(self._members) == 1:
            yield from self._parse(self._members[0], self.options)
        else:
            if self.options.chat_id:
                yield Notice(text="The export has several chats, which it names itself; --chat is not used.")
            for member in self._members:
                for item in self._parse(member, replace(self.options, chat_id=None)):
                    if isinstance(item, Record | Skipped | Unread | Broken):
                        yield replace(item, where=f"{member}, {item.where}")
                    else:
                        yield item

    def _parse(self, member: str, options: ImportOptions) -> Iterator[Parsed]:
        declared = formats.BY_NAME[self.format]
        options = declared.placed(
            options, FilePlace(source=Path(self.name), member=member, read=self._beside)
        )
        with opened(self._container, member, self._advance) as stream:
            if declared.of_bytes is not None:
                yield from declared.of_bytes(stream, options)
            elif declared.of_lines is not None:
                yield from declared.of_lines(exports.utf8_lines(stream), options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()

    def _advance(self, count: int) -> None:
        self.position += count

    def _beside(self, name: str) -> bytes | None:
        if not 0 < self._container.sizes.get(name, 0) <= MAX_BESIDE_BYTES:
            return None
        with opened(self._container, name, lambda _: None) as stream:
            return stream.read()

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


def open_source(path: Path, options: ImportOptions, *, format: Format | None = None) -> ExportSource:  # noqa: A002
    """Open a file, a folder (Slack, Telegram Desktop) or a zip. Raises `InvalidInput`, which says what to do."""
    try:
        container = open_container(path)
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise exports.unreadable(str(path), error) from error
    try:
        return _source(path, container, options, format)
    except BaseException:
        container.close()
        raise


def _source(path: Path, container: Container, options: ImportOptions, wanted: Format | None) -> ExportSource:
    chosen: Export | None = None
    others: tuple[Export, ...] = ()
    member = path.name
    if member not in container.sizes:
        chosen, others = choose(path, container, wanted)
        member = chosen.name
    name = str(path) if chosen is None or chosen.name in ("", ".") else f"{path}: {chosen.name}"
    if chosen is not None and (chosen.members or chosen.format == "slack"):
        files = chosen.members or slack.files_of(container.sizes)
        return ExportSource(
            name=name,
            format=wanted or chosen.format,
            options=options,
            size=sum(container.sizes[file] for file in files),
            others=others,
            _container=container,
            _members=chosen.members,
        )
    if wanted == "slack":
        raise no_slack(path)
    begins = head(container, member, name)
    if not begins.strip():
        raise InvalidInput(f"{name} is empty", field="file")
    format_ = wanted or formats.detect(name, begins)
    return ExportSource(
        name=name,
        format=format_,
        options=_titled(path, member, options) if format_ == "whatsapp" else options,
        size=container.sizes[member],
        others=others,
        _container=container,
        _members=(member,),
    )


def _titled(path: Path, member: str, options: ImportOptions) -> ImportOptions:
    """Complete the options by WhatsApp's name of the file or zip, which holds the chat's title."""
    # any folder can hold a `_chat.txt`; a zip's name was given by the phone, or by the user for this chat
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
