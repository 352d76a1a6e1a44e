"""The platforms whose events are accepted, the parser of each, and the proof that it sent a request."""

import base64
import hmac
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from pipeline.platforms import discord as discord
from pipeline.platforms import jsonlines, matrix
from pipeline.platforms import slack_events as slack
from pipeline.platforms import telegram_events as telegram
from pipeline.platforms.records import Event
from pipeline.platforms.whatsapp import baileys, cloud
from schemas.base import did_you_mean
from schemas.errors import InvalidInput, NotFound
from schemas.messages import MAX_BATCH

PARSERS: dict[str, Callable[[Any], Iterator[Event]]] = {
    "telegram": telegram.parse,
    "slack": slack.parse,
    "discord": discord.parse_events,
    "whatsapp": cloud.parse,
    "baileys": baileys.parse,
    "matrix": matrix.parse,
    "standard": jsonlines.parse_webhook,
}


def parse_events(platform: str, value: Any, *, most: int | None = MAX_BATCH) -> list[Event]:
    """Return the events of a platform's payload, in order; unreadable items are `Broken`.

    Raises `NotFound` for a platform that is not known, and `InvalidInput` for what is no payload of the platform, or
    says more than `most` things.
    """
    parser = PARSERS.get(platform)
    if parser is None:
        hint = did_you_mean(platform, PARSERS)
        known = f"known are {', '.join(PARSERS)}"
        raise NotFound(f"there are no events of a platform {platform[:50]!r}: {hint or known}")
    events: list[Event] = []
    try:
        for event in parser(value):
            events.append(event)
            # the platform repeats the chat with each message
            if most is not None and len(events) > 2 * most:
                raise InvalidInput(f"the body says more than {most} things: send it in parts", field="body")
    except RecursionError:
        raise InvalidInput("the body is nested too deeply", field="body") from None
    return events


WINDOW_SECONDS = 300
"""How far the time of a signature may be from ours, so that a captured request cannot be replayed later.
WhatsApp signs no time, Telegram and Matrix only send a token: their replays are repetitions, which change nothing."""
BY_HEADER = ("telegram", "matrix")
"""Platforms whose proof is a header alone, so that it can be checked before the body is read."""
_WHSEC = "whsec_"


def check_proof(
    platform: str, secret: str, headers: Mapping[str, str], body: bytes, now: float
) -> str | None:
    """Return why a request is not proven to be the platform's, or None; in a time independent of the secret.

    The names of `headers` are in lower case, unless the mapping knows them in any.
    """
    match platform:
        case "telegram":
            return _unless(secret, headers, "x-telegram-bot-api-secret-token")
        case "matrix":
            return _unless(f"Bearer {secret}", headers, "authorization")
        case "whatsapp":
            return _unless(f"sha256={_signed(secret.encode(), body).hex()}", headers, "x-hub-signature-256")
        case "slack":
            stamp = headers.get(time := "x-slack-request-timestamp", "")
            signed = _signed(secret.encode(), b"v0:%b:%b" % (stamp.encode(), body)).hex()
            return _unless(f"v0={signed}", headers, "x-slack-signature") or _late(stamp, time, now)
        case "standard":
            named, stamp = headers.get("webhook-id", ""), headers.get(time := "webhook-timestamp", "")
            key, content = _standard_key(secret), b"%b.%b.%b" % (named.encode(), stamp.encode(), body)
            expected = "v1," + base64.b64encode(_signed(key, content)).decode()
            return _unless(expected, headers, "webhook-signature", most=10) or _late(stamp, time, now)
    # Discord
    signature, stamp = headers.get("x-signature-ed25519", ""), headers.get(at := "x-signature-timestamp", "")
    try:
        _public_key(secret).verify(bytes.fromhex(signature), stamp.encode() + body)
    except (ValueError, InvalidSignature):
        return "x-signature-ed25519 is missing or wrong"
    return _late(stamp, at, now)


def equal_secrets(received: str, expected: str) -> bool:
    """Compare in constant time."""
    first, second = (text.encode("utf-8", "surrogateescape") for text in (received, expected))
    return hmac.compare_digest(first, second)


def _unless(expected: str, headers: Mapping[str, str], header: str, most: int = 1) -> str | None:
    """Return what is wrong with a header, which may hold several values, unless it has this one."""
    value = headers.get(header, "")
    candidates = [value] if most == 1 else value.split(" ")[:most]
    return None if any(equal_secrets(c, expected) for c in candidates) else f"{header} is missing or wrong"


def _signed(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, "sha256")


def _late(stamp: str, name: str, now: float) -> str | None:
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
        return f"{name} is missing or no time"
    return f"{name} is more than 5 minutes from now" if abs(now - int(stamp)) > WINDOW_SECONDS else None


def _standard_key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(_WHSEC), validate=True)


def _public_key(secret: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(secret))


def new_secret(platform: str) -> str | None:
    """Create a secret for a platform that accepts ours; None for platforms with their own."""
    match platform:
        case "telegram" | "matrix":
            return secrets.token_urlsafe(32)
        case "standard":
            return _WHSEC + base64.b64encode(secrets.token_bytes(32)).decode()
    return None


_FORMS: dict[str, tuple[Callable[[str], object], str]] = {
    "telegram": (re.compile(r"[A-Za-z0-9_-]{1,256}").fullmatch, "1 to 256 letters, digits, _ and -"),
    "discord": (_public_key, "the application's public key, 64 hexadecimal digits"),
    "standard": (_standard_key, "base64, perhaps behind whsec_"),
}


def problem_with_secret(platform: str, secret: str) -> str | None:
    """Return why this cannot be the secret of a platform, or None."""
    read, form = _FORMS.get(platform, (str, ""))
    with suppress(ValueError):
        if read(secret):
            return None
    return f"must be {form}"


def verify_token(secret: str) -> str:
    """Return what WhatsApp's handshake shows in its URL: it comes of the secret, which is never in one."""
    return _signed(secret.encode(), b"hub.verify_token").hex()[:32]
