"""What is known of a platform: how the files of its exports look, and of its events parser, proof and handshake."""

import base64
import hmac
import io
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

from pipeline.platforms import json_stream
from pipeline.platforms.records import Event, ImportOptions, Parsed

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


WINDOW_SECONDS = 300
"""How far the time of a signature may be from ours, so that a captured request cannot be replayed later.
WhatsApp and LINE sign no time, Telegram and Matrix only send a token: their replays are repetitions, which change
nothing."""

Proof = Callable[[str, Mapping[str, str], bytes, float], str | None]
"""From the secret, the headers, the body and the time: why a request is not proven to be the platform's, or None."""


@dataclass(frozen=True, kw_only=True)
class Secret:
    """What the secrets of a platform look like."""

    # creates one of ours, for platforms that take it
    new: Callable[[], str | None] = lambda: None
    # raises `ValueError`, or returns nothing, for what can be no secret, and what it must be
    read: Callable[[str], object] = str
    form: str = ""

    def problem_with(self, secret: str) -> str | None:
        """Return why this cannot be a secret of the platform, or None."""
        with suppress(ValueError):
            if self.read(secret):
                return None
        return f"must be {self.form}"


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A platform that sends events."""

    parse: Callable[[Any], Iterator[Event]]
    # none: it proves nothing, and its events need an API key
    proof: Proof | None = None
    # the proof is a header alone, so that it can be checked before the body is read
    by_header: bool = False
    secret: Secret = Secret()
    # ids of chats that a person has with each account of ours, if its events do not tell which of them it is
    with_each_account: re.Pattern[str] | None = None
    # answers the first request to a new URL; None if it is none
    handshake: Callable[[Any], dict[str, Any] | None] = lambda _: None
    # a new URL is asked for a token that comes of the secret
    asks_for_token: bool = False
    # more than it sends at once, by what it says
    max_bytes: int | None = None
    # it wants no body for an answer
    answers_empty: bool = False


OUR_TOKEN = Secret(
    new=lambda: secrets.token_urlsafe(32),
    read=re.compile(r"[A-Za-z0-9_-]{1,256}").fullmatch,
    form="1 to 256 letters, digits, _ and -",
)


def by_token(header: str, scheme: str = "") -> Proof:
    """Return the proof by a header that holds the secret itself."""
    return lambda secret, headers, _body, _now: unless(f"{scheme}{secret}", headers, header)


def by_signature(header: str, encode: Callable[[bytes], str]) -> Proof:
    """Return the proof by a header that holds the body's HMAC-SHA256."""
    return lambda secret, headers, body, _now: unless(encode(signed(secret.encode(), body)), headers, header)


def in_base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def equal_secrets(received: str, expected: str) -> bool:
    """Compare in constant time."""
    first, second = (text.encode("utf-8", "surrogateescape") for text in (received, expected))
    return hmac.compare_digest(first, second)


def unless(expected: str, headers: Mapping[str, str], header: str, most: int = 1) -> str | None:
    """Return what is wrong with a header, which may hold several values, unless it has this one."""
    value = headers.get(header, "")
    candidates = [value] if most == 1 else value.split(" ")[:most]
    return None if any(equal_secrets(c, expected) for c in candidates) else f"{header} is missing or wrong"


def signed(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, "sha256")


def late(stamp: str, name: str, now: float) -> str | None:
    """Return what is wrong with the time of a signature, or None."""
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
        return f"{name} is missing or no time"
    return f"{name} is more than 5 minutes from now" if abs(now - int(stamp)) > WINDOW_SECONDS else None
