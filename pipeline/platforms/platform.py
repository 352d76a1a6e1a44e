"""What is known of a platform that sends events: their parser, its proof, its secrets and its handshake."""

import base64
import hmac
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pipeline.platforms.records import Event

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
