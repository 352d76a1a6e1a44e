"""Files and zip members as UTF-8 bytes and lines, from any Unicode encoding."""

import codecs
import io
import zlib
from collections.abc import Callable, Iterator
from typing import IO
from zipfile import BadZipFile

from pipeline.platforms.records import MAX_LINE_CHARS
from schemas.errors import InvalidInput

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


def lines(stream: io.BufferedIOBase) -> Iterator[str]:
    """Yield the lines of a stream, cut to `MAX_LINE_CHARS` and one; invalid UTF-8 becomes surrogate escapes."""
    while raw := stream.readline(_MAX_LINE_BYTES):
        line = raw
        # skip the rest of a line that is too long
        while not raw.endswith(b"\n") and len(raw) == _MAX_LINE_BYTES:
            raw = stream.readline(_MAX_LINE_BYTES)
        yield line.decode("utf-8", "surrogateescape").rstrip("\r\n")[: MAX_LINE_CHARS + 1]
