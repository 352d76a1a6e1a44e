"""The exports in a folder, a zip or a file, as UTF-8 bytes and lines from any Unicode encoding."""

import codecs
import io
import posixpath
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from zipfile import BadZipFile

from pipeline.platforms import formats
from pipeline.platforms import slack_export as slack
from pipeline.platforms.formats import Format
from pipeline.platforms.records import MAX_LINE_CHARS
from schemas.errors import InvalidInput

_READABLE = (".txt", ".json", ".jsonl", ".ndjson", ".csv")
# names of platforms' export files inside a zip or a folder
_WELL_KNOWN = ("_chat.txt", "result.json")
# a Slack export, perhaps in one more folder, and no deeper: a whole disk may be given by mistake
_DEPTHS = (
    *("*", "*/_chat.txt", "*/*.json", "*/*/*.json"),
    *("teams/*/*/*.json", "*/teams/*/*.json", "*/teams/*/*/*.json"),
    # of formats whose files stand in folders of their own, perhaps in two more
    *(
        up + glob
        for declared in formats.BY_NAME.values()
        for glob in declared.folders
        for up in ("", "*/", "*/*/")
    ),
)
# Files of a folder or zip whose format is detected.
MAX_DETECTED = 10_000
_BUFFER_BYTES = 256 * 1024
# A file that unpacks to more than this, and to a hundred times its size, is refused: exports reach thirty times.
MAX_RATIO = 100
UNPACKED_ANYWAY_BYTES = 32 * 1024 * 1024


@dataclass(kw_only=True)
class Container:
    """The files of a folder or zip by their path with slashes, or one file by its name."""

    # the sizes in bytes, unpacked
    sizes: dict[str, int]
    open: Callable[[str], IO[bytes]]
    close: Callable[[], None] = lambda: None


def open_container(path: Path) -> Container:
    if not path.exists():
        raise InvalidInput(f"{path} does not exist", field="file")
    if path.is_dir():
        inside = [item for pattern in _DEPTHS for item in path.glob(pattern) if item.is_file()]
        files = {item.relative_to(path).as_posix(): item for item in inside}
        sizes = {name: item.stat().st_size for name, item in files.items()}
        return Container(sizes=sizes, open=lambda name: files[name].open("rb"))
    if path.stat().st_size == 0:
        raise InvalidInput(f"{path} is empty", field="file")
    if not zipfile.is_zipfile(path):
        return Container(sizes={path.name: path.stat().st_size}, open=lambda _: path.open("rb"))
    archive = zipfile.ZipFile(path)
    members = [info for info in archive.infolist() if not info.is_dir()]
    for info in members:
        if info.file_size > max(UNPACKED_ANYWAY_BYTES, MAX_RATIO * info.compress_size):
            archive.close()
            raise InvalidInput(
                f"{path}: {info.filename} unpacks from {info.compress_size:,} to {info.file_size:,} bytes, more than "
                f"{MAX_RATIO} times as much, which no export does; if you trust it, unpack it and give the folder",
                field="file",
            )
    sizes = {info.filename: info.file_size for info in members if not info.filename.startswith("__MACOSX/")}
    return Container(sizes=sizes, open=archive.open, close=archive.close)


@contextmanager
def opened(
    container: Container, name: str, count: Callable[[int], None]
) -> "Iterator[io.BufferedReader[Utf8]]":
    try:
        below = container.open(name)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise unreadable(name, error) from error
    with below, io.BufferedReader(Utf8(name, below, count), _BUFFER_BYTES) as stream:
        yield stream


def head(container: Container, member: str, name: str) -> str:
    """Read the beginning of a file; the rest is checked line by line when it is read."""
    with opened(container, member, lambda _: None) as stream:
        return check_utf8(name, stream.read(formats.HEAD_CHARS))


@dataclass(frozen=True, kw_only=True)
class Export:
    """Something in a folder or zip that can be imported."""

    # with slashes; of a Slack export its folder
    name: str
    format: Format
    # the path to import it alone; None inside a zip
    path: Path | None
    # whether a platform puts its export there, at the top
    is_own: bool
    # the files of a format that has some for each chat
    members: tuple[str, ...] = ()


class SeveralExports(InvalidInput):
    """A folder or zip holds several exports, and none is a platform's own at the top."""

    def __init__(self, path: Path, exports: Sequence[Export]) -> None:
        super().__init__(f"{path} holds {len(exports)} exports, and nothing was written", field="file")
        self.exports = tuple(exports)


def no_slack(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{path} is no Slack export: it has no channels.json, groups.json, mpims.json or dms.json; "
        "give the folder or zip that Slack made",
        field="file",
    )


def choose(path: Path, container: Container, wanted: Format | None) -> tuple[Export, tuple[Export, ...]]:
    """Find the export to import in a folder or zip, and the others in it.

    It is the only one, or the platform's own at the top. Raises `SeveralExports`, and `InvalidInput` if there is none.
    """
    exports = _exports(path, container)
    if wanted is not None:
        fitting = [export for export in exports if formats.reads(wanted, export.format)]
        if wanted == "slack" and not fitting:
            raise no_slack(path)
    else:
        fitting = exports
    native = [export for export in fitting if export.is_own]
    for candidates in (native, fitting):
        if len(candidates) == 1:
            return candidates[0], tuple(export for export in exports if export != candidates[0])
    if fitting:
        raise SeveralExports(path, fitting)
    texts = _texts(container)
    if len(texts) == 1:
        # a given format is trusted; otherwise detection explains what is wrong
        name = f"{path}: {texts[0]}"
        format_ = wanted or formats.detect(name, head(container, texts[0], name))
        return Export(name=texts[0], format=format_, path=None, is_own=False), ()
    raise InvalidInput(
        f"{path} holds no export: neither a Slack export (channels.json and its like) nor Telegram's "
        "result.json, WhatsApp's _chat.txt or another .txt, .json or .jsonl file of a known format",
        field="file",
    )


def _exports(path: Path, container: Container) -> list[Export]:
    """List the exports among the files of a folder or zip, those at the top first."""
    exports = []
    names = _texts(container)
    if (root := slack.root_of(container.sizes)) is not None:
        # other files in its channels' folders belong to it
        files = set(slack.files_of(container.sizes))
        names = [name for name in names if name not in files and not (name.startswith(root) and "/" in name)]
        where = path / root if path.is_dir() else None
        exports.append(Export(name=root.rstrip("/"), format="slack", path=where, is_own=root == ""))
    for name in sorted(names, key=lambda name: (name.count("/"), name))[:MAX_DETECTED]:
        if (format_ := _format_of(container, name)) is not None:
            is_own = name.lower() in _WELL_KNOWN
            where = path / name if path.is_dir() else None
            exports.append(Export(name=name, format=format_, path=where, is_own=is_own))
    if path.is_dir():
        zips = [(inside, _format_of_zip(inside)) for inside in sorted(path.glob("*.zip"))[:MAX_DETECTED]]
        exports += [
            Export(name=inside.name, format=format_, path=inside, is_own=False)
            for inside, format_ in zips
            if format_ is not None
        ]
    several = sorted(name for name, declared in formats.BY_NAME.items() if declared.several)
    return [export for export in exports if export.format not in several] + [
        _whole(path, parts)
        for format_ in several
        if (parts := [export for export in exports if export.format == format_])
    ]


def _whole(path: Path, parts: Sequence[Export]) -> Export:
    """Return one export of a format that has files for each chat."""
    if len(parts) == 1:
        return parts[0]
    members = tuple(export.name for export in parts)
    folder = posixpath.commonpath(members)
    where = path / folder if path.is_dir() else None
    return Export(name=folder, format=parts[0].format, path=where, is_own=False, members=members)


def _texts(container: Container) -> list[str]:
    names = [name for name in container.sizes if name.lower().endswith(_READABLE)]
    # signal-export writes each chat twice
    names += [
        name
        for name in container.sizes
        if name.endswith("/chat.md") and name.replace("chat.md", "data.json") not in container.sizes
    ]
    return sorted(names)


def _format_of(container: Container, name: str) -> Format | None:
    try:
        return formats.detect(name, head(container, name, name))
    except InvalidInput:
        return None


def _format_of_zip(path: Path) -> Format | None:
    """Return the format of a zip beside other files, if a platform packs its export so."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
    except (OSError, zipfile.BadZipFile, NotImplementedError):
        return None
    if slack.root_of(names) is not None:
        return "slack"
    last = [name.rpartition("/")[2].lower() for name in names]
    if "_chat.txt" in last or any("whatsapp" in name and name.endswith(".txt") for name in last):
        return "whatsapp"
    return "telegram" if "result.json" in last else None


# a character has up to four bytes
_MAX_LINE_BYTES = 4 * MAX_LINE_CHARS
# the encoding that each byte order mark says; UTF-8 is not decoded
_BOMS = {codecs.BOM_UTF8: None, codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Utf8(io.RawIOBase):
    """A stream of UTF-8 without byte order mark, over one of UTF-8 or of UTF-16 with one.

    `count` gets the number of bytes of each read below. UTF-8 passes unchecked, so that errors are reported by line.
    """

    def __init__(self, name: str, below: IO[bytes], count: Callable[[int], None]) -> None:
        self._name = name
        self._below = below
        self._count = count
        self._decoder: codecs.IncrementalDecoder | None = None
        self._read_bytes = 0
        self._ready = b""
        self._end = False
        start = self._fetch(4)
        bom = next((bom for bom in _BOMS if start.startswith(bom)), b"")
        if encoding := _BOMS.get(bom):
            self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = self._decoded(start.removeprefix(bom))

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._below.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready and not self._end:
            raw = self._fetch(len(buffer))
            self._end = not raw
            self._ready = self._decoded(raw)
        chunk = self._ready[: len(buffer)]
        self._ready = self._ready[len(chunk) :]
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def _fetch(self, size: int) -> bytes:
        try:
            raw = self._below.read(size)
        except (OSError, BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise unreadable(self._name, error) from error
        self._read_bytes += len(raw)
        self._count(len(raw))
        return raw

    def _decoded(self, raw: bytes) -> bytes:
        if self._decoder is None:
            return raw
        try:
            return self._decoder.decode(raw, final=not raw).encode()
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"{self._name} is UTF-16 but damaged near byte {self._read_bytes}; save it as UTF-8",
                field="file",
            ) from error


def unreadable(name: str, error: Exception) -> InvalidInput:
    """Return the error for a file that the operating system or the zip cannot read."""
    if isinstance(error, RuntimeError) and "password" in str(error):
        return InvalidInput(
            f"{name} is encrypted; unpack it with its password and give the folder", field="file"
        )
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InvalidInput(f"{name} cannot be read: {reason}", field="file")


def check_utf8(name: str, head: bytes) -> str:
    """Decode the beginning of a file. Raises `InvalidInput`, which says how to convert the file."""
    if b"\x00" in head:
        raise InvalidInput(f"{name} is no text; export the chat again, as text or JSON", field="file")
    try:
        # the last character may be cut in two
        return codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{name} is not UTF-8: byte 0x{head[error.start]:02X} at position {error.start}. Convert it, for "
            f"example with: iconv -f WINDOWS-1252 -t UTF-8 {name!r} > converted.txt",
            field="file",
        ) from error


def utf8_lines(stream: io.BufferedIOBase) -> Iterator[str]:
    """Yield the lines of a stream, cut to `MAX_LINE_CHARS` and one; invalid UTF-8 becomes surrogate escapes."""
    while raw := stream.readline(_MAX_LINE_BYTES):
        line = raw
        # skip the rest of a line that is too long
        while not raw.endswith(b"\n") and len(raw) == _MAX_LINE_BYTES:
            raw = stream.readline(_MAX_LINE_BYTES)
        yield line.decode("utf-8", "surrogateescape").rstrip("\r\n")[: MAX_LINE_CHARS + 1]
