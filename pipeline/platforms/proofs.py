"""How each platform proves that it sent a request: a secret token, or a signature over the raw body."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

WINDOW_SECONDS = 300
"""How far the time of a signature may be from ours, where it has one: what was overheard cannot be sent again later."""
_WHSEC = "whsec_"


def check(platform: str, secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str | None:
    """Return why a request is not proven to be the platform's, or None; in a time that tells nothing of the secret.

    The names of `headers` are in lower case, unless the mapping knows them in any.
    """
    return _CHECKS[platform](secret, headers, body, now)


def equal(given: str | bytes, wanted: str | bytes) -> bool:
    """Compare in a time that does not depend on where they differ."""
    first, second = (
        each.encode("utf-8", "surrogateescape") if isinstance(each, str) else each for each in (given, wanted)
    )
    return hmac.compare_digest(first, second)


def _token(header: str, prefix: str = "") -> Callable[[str, Mapping[str, str], bytes, float], str | None]:
    def check_token(secret: str, headers: Mapping[str, str], _body: bytes, _now: float) -> str | None:
        return None if equal(headers.get(header, ""), prefix + secret) else f"{header} is missing or wrong"

    return check_token


def _late(stamp: str, name: str, now: float) -> str | None:
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
        return f"{name} is missing or no time"
    return f"{name} is more than 5 minutes from now" if abs(now - int(stamp)) > WINDOW_SECONDS else None


def _slack(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str | None:
    stamp = headers.get("x-slack-request-timestamp", "")
    signed = hmac.new(secret.encode(), b"v0:%b:%b" % (stamp.encode(), body), hashlib.sha256).hexdigest()
    if not equal(headers.get("x-slack-signature", ""), f"v0={signed}"):
        return "x-slack-signature is missing or wrong"
    return _late(stamp, "x-slack-request-timestamp", now)


def _discord(secret: str, headers: Mapping[str, str], body: bytes, _now: float) -> str | None:
    stamp = headers.get("x-signature-timestamp", "")
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(secret))
        key.verify(bytes.fromhex(headers.get("x-signature-ed25519", "")), stamp.encode() + body)
    except (ValueError, InvalidSignature):
        return "x-signature-ed25519 is missing or wrong"
    return None


def _whatsapp(secret: str, headers: Mapping[str, str], body: bytes, _now: float) -> str | None:
    signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    right = equal(headers.get("x-hub-signature-256", ""), f"sha256={signed}")
    return None if right else "x-hub-signature-256 is missing or wrong"


def _standard(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str | None:
    named, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    content = b"%b.%b.%b" % (named.encode(), stamp.encode(), body)
    signed = hmac.new(base64.b64decode(secret.removeprefix(_WHSEC)), content, hashlib.sha256).digest()
    wanted = b"v1," + base64.b64encode(signed)
    given = headers.get("webhook-signature", "").split(" ")
    if not any(equal(each, wanted) for each in given[:10]):
        return "webhook-signature is missing or wrong"
    return _late(stamp, "webhook-timestamp", now)


_CHECKS: dict[str, Callable[[str, Mapping[str, str], bytes, float], str | None]] = {
    "telegram": _token("x-telegram-bot-api-secret-token"),
    "slack": _slack,
    "discord": _discord,
    "whatsapp": _whatsapp,
    "matrix": _token("authorization", "Bearer "),
    "standard": _standard,
}


def new_secret(platform: str) -> str | None:
    """Return a secret for a platform that takes ours; None for those that have their own."""
    match platform:
        case "telegram" | "matrix":
            return secrets.token_urlsafe(32)
        case "standard":
            return _WHSEC + base64.b64encode(secrets.token_bytes(32)).decode()
    return None


def problem_with(platform: str, secret: str) -> str | None:
    """Return why this cannot be the secret of a platform, or None."""
    match platform:
        case "telegram" if len(secret) > 256 or not all(
            c.isascii() and (c.isalnum() or c in "_-") for c in secret
        ):
            return "must be 1 to 256 letters, digits, _ and -"
        case "discord":
            try:
                Ed25519PublicKey.from_public_bytes(bytes.fromhex(secret))
            except ValueError:
                return "must be the application's public key, 64 hexadecimal digits"
        case "standard":
            try:
                base64.b64decode(secret.removeprefix(_WHSEC), validate=True)
            except binascii.Error:
                return "must be base64, perhaps behind whsec_"
    return None


def verify_token(secret: str) -> str:
    """Return what WhatsApp's handshake shows in its URL: it comes of the secret, which is never in one."""
    return hmac.new(secret.encode(), b"hub.verify_token", hashlib.sha256).hexdigest()[:32]
