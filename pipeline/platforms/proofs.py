"""Check a platform's proof that it sent a request: a secret token, or a signature over the raw body."""

import base64
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

WINDOW_SECONDS = 300
"""How far the time of a signature may be from ours, so that a captured request cannot be replayed later.
WhatsApp signs no time, Telegram and Matrix only send a token: their replays are repetitions, which change nothing."""
BY_HEADER = ("telegram", "matrix")
"""Platforms whose proof is a header alone, so that it can be checked before the body is read."""
_WHSEC = "whsec_"


def check(platform: str, secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str | None:
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


def equal(received: str, expected: str) -> bool:
    """Compare in constant time."""
    first, second = (text.encode("utf-8", "surrogateescape") for text in (received, expected))
    return hmac.compare_digest(first, second)


def _unless(expected: str, headers: Mapping[str, str], header: str, most: int = 1) -> str | None:
    """Return what is wrong with a header, which may hold several values, unless it has this one."""
    value = headers.get(header, "")
    candidates = [value] if most == 1 else value.split(" ")[:most]
    return None if any(equal(c, expected) for c in candidates) else f"{header} is missing or wrong"


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


def problem_with(platform: str, secret: str) -> str | None:
    """Return why this cannot be the secret of a platform, or None."""
    read, form = _FORMS.get(platform, (str, ""))
    with suppress(ValueError):
        if read(secret):
            return None
    return f"must be {form}"


def verify_token(secret: str) -> str:
    """Return what WhatsApp's handshake shows in its URL: it comes of the secret, which is never in one."""
    return _signed(secret.encode(), b"hub.verify_token").hex()[:32]
