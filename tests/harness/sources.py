"""Events of sources, signed as platforms sign them."""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from datetime import UTC, datetime

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from slack_sdk.signature import SignatureVerifier
from standardwebhooks.webhooks import Webhook

KEY = Ed25519PrivateKey.generate()
SECRETS = {
    "slack": "8f742231b10e8888abcd99yyyzzz85a5",
    "discord": KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex(),
    "whatsapp": "0123456789abcdef0123456789abcdef",
    "line": "fedcba9876543210fedcba9876543210",
}

Headers = dict[str, str]


def slack_headers(secret: str, body: bytes, stamp: int) -> Headers:
    signature = SignatureVerifier(secret).generate_signature(timestamp=str(stamp), body=body)
    assert signature is not None
    return {"X-Slack-Request-Timestamp": str(stamp), "X-Slack-Signature": signature}


def standard_headers(secret: str, body: bytes, stamp: int) -> Headers:
    signature = Webhook(secret).sign("msg_1", datetime.fromtimestamp(stamp, UTC), body.decode())
    other = "v1," + base64.b64encode(b"another key's").decode()
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(stamp),
        "webhook-signature": f"{other} {signature}",
    }


def discord_headers(_secret: str, body: bytes, stamp: int) -> Headers:
    signature = KEY.sign(str(stamp).encode() + body).hex()
    return {"X-Signature-Timestamp": str(stamp), "X-Signature-Ed25519": signature}


def whatsapp_headers(secret: str, body: bytes, _stamp: int) -> Headers:
    return {"X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


def line_headers(secret: str, body: bytes, _stamp: int) -> Headers:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).digest()
    return {"X-Line-Signature": base64.b64encode(digest).decode()}


SIGNED: dict[str, Callable[[str, bytes, int], Headers]] = {
    "telegram": lambda secret, _body, _stamp: {"X-Telegram-Bot-Api-Secret-Token": secret},
    "slack": slack_headers,
    "discord": discord_headers,
    "whatsapp": whatsapp_headers,
    "matrix": lambda secret, _body, _stamp: {"Authorization": f"Bearer {secret}"},
    "line": line_headers,
    "standard": standard_headers,
}


def signed(platform: str, secret: str, body: bytes, stamp: int | None = None) -> Headers:
    return SIGNED[platform](secret, body, int(time.time()) if stamp is None else stamp)


def add(client: httpx.Client, platform: str) -> tuple[str, str]:
    """A new source's path and secret."""
    given = {"platform": platform} | ({"secret": SECRETS[platform]} if platform in SECRETS else {})
    answer = client.post("/v1/sources", json=given)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    return made["path"], made["secret"] or SECRETS[platform]


def send(client: httpx.Client, path: str, body: bytes, headers: Headers) -> httpx.Response:
    """As the platform sends it, without an API key."""
    return httpx.post(client.base_url.join(path), content=body, headers=headers, timeout=60)
