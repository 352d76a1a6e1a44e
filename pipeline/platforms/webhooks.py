"""The registry of platforms whose events are accepted."""

import base64
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from pipeline.platforms import discord as discord
from pipeline.platforms import fields, jsonlines, line, matrix
from pipeline.platforms import slack_events as slack
from pipeline.platforms import telegram_events as telegram
from pipeline.platforms.platform import (
    OUR_TOKEN,
    Platform,
    Secret,
    by_signature,
    by_token,
    in_base64,
    late,
    signed,
    unless,
)
from pipeline.platforms.platform import equal_secrets as equal_secrets
from pipeline.platforms.records import BotAccount, Event, NewNumber, OtherId
from pipeline.platforms.whatsapp import baileys, cloud
from schemas.base import did_you_mean
from schemas.errors import InvalidInput, NotFound
from schemas.messages import MAX_BATCH, ChatIn

_WHSEC, _MB = "whsec_", 2**20


def _slack_proof(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str | None:
    stamp = headers.get(time := "x-slack-request-timestamp", "")
    expected = signed(secret.encode(), b"v0:%b:%b" % (stamp.encode(), body)).hex()
    return unless(f"v0={expected}", headers, "x-slack-signature") or late(stamp, time, now)


def _discord_proof(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str | None:
    signature, stamp = headers.get("x-signature-ed25519", ""), headers.get(at := "x-signature-timestamp", "")
    try:
        _public_key(secret).verify(bytes.fromhex(signature), stamp.encode() + body)
    except (ValueError, InvalidSignature):
        return "x-signature-ed25519 is missing or wrong"
    return late(stamp, at, now)


def _standard_proof(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str | None:
    named, stamp = headers.get("webhook-id", ""), headers.get(time := "webhook-timestamp", "")
    expected = _standard_signature(secret, named, stamp, body)
    return unless(expected, headers, "webhook-signature", most=10) or late(stamp, time, now)


def _standard_signature(secret: str, named: str, stamp: str, body: bytes) -> str:
    content = b"%b.%b.%b" % (named.encode(), stamp.encode(), body)
    return "v1," + in_base64(signed(_standard_key(secret), content))


def standard_headers(secret: str, webhook_id: str, body: bytes, now: int) -> dict[str, str]:
    """Return the headers by which a webhook of ours proves itself, to be checked as those of others are."""
    signature = _standard_signature(secret, webhook_id, str(now), body)
    return {"webhook-id": webhook_id, "webhook-timestamp": str(now), "webhook-signature": signature}


def _standard_key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(_WHSEC), validate=True)


def _public_key(secret: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(secret))


def _slack_handshake(value: Any) -> dict[str, Any] | None:
    asked = fields.dict_of(value)
    challenge = asked.get("challenge")
    is_one = asked.get("type") == "url_verification" and isinstance(challenge, str)
    return {"challenge": challenge} if is_one else None


def _discord_handshake(value: Any) -> dict[str, Any] | None:
    asked = fields.dict_of(value)
    return {"type": 1} if asked.get("type") == 1 and "event" not in asked else None


PLATFORMS: dict[str, Platform] = {
    "telegram": Platform(
        parse=telegram.parse,
        proof=by_token("x-telegram-bot-api-secret-token"),
        by_header=True,
        secret=OUR_TOKEN,
        with_each_account=re.compile(r"telegram:\d+"),
        max_bytes=_MB,
    ),
    "slack": Platform(parse=slack.parse, proof=_slack_proof, handshake=_slack_handshake, max_bytes=_MB),
    "discord": Platform(
        parse=discord.parse_events,
        proof=_discord_proof,
        secret=Secret(read=_public_key, form="the application's public key, 64 hexadecimal digits"),
        handshake=_discord_handshake,
        max_bytes=_MB,
        answers_empty=True,
    ),
    "whatsapp": Platform(
        parse=cloud.parse,
        proof=by_signature("x-hub-signature-256", lambda digest: f"sha256={digest.hex()}"),
        asks_for_token=True,
        max_bytes=4 * _MB,
    ),
    "baileys": Platform(
        parse=baileys.parse, with_each_account=re.compile(r"whatsapp:(?!.*@(?:g\.us|newsletter)$).+")
    ),
    "matrix": Platform(
        parse=matrix.parse,
        proof=by_token("authorization", "Bearer "),
        by_header=True,
        secret=Secret(new=OUR_TOKEN.new),
    ),
    "line": line.PLATFORM,
    "standard": Platform(
        parse=jsonlines.parse_webhook,
        proof=_standard_proof,
        secret=Secret(
            new=lambda: _WHSEC + in_base64(secrets.token_bytes(32)),
            read=_standard_key,
            form="base64, perhaps behind whsec_",
        ),
    ),
}
PARSERS: dict[str, Callable[[Any], Iterator[Event]]] = {
    name: platform.parse for name, platform in PLATFORMS.items()
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
    except ValueError as error:
        # what is wrong is outside the items, which are told apart
        raise InvalidInput(str(error), field="body") from error
    return events


_ACCOUNT = re.compile(r"[A-Za-z0-9._-]{1,64}")


def of_account(platform: str, events: Sequence[Event], account: str) -> list[Event]:
    """Return events with the account of ours that they are said to be with, in the ids of direct chats.

    Raises `InvalidInput` for a name that is none, and for a platform whose events tell it.
    """
    direct = PLATFORMS[platform].with_each_account
    if direct is None:
        raise InvalidInput(f"account: {platform} tells itself which account it is", field="account")
    if not _ACCOUNT.fullmatch(account):
        raise InvalidInput("account must be 1 to 64 letters, digits, dots, _ and -", field="account")
    # those of WhatsApp are its own, however they come
    of = direct.pattern.partition(":")[0]
    found: list[Event] = [BotAccount(where="account", platform=of, account=account, is_stated=True)]
    for event in events:
        chat_id = None if isinstance(event, NewNumber) else getattr(event, "chat_id", None)
        if isinstance(event, OtherId):
            event = replace(event, account=f"@{account}")
        elif chat_id is not None and direct.fullmatch(chat_id):
            own: dict[str, Any] = {"chat_id": f"{chat_id}@{account}"}
            event = event.model_copy(update=own) if isinstance(event, ChatIn) else replace(event, **own)
        found.append(event)
    return found


def check_proof(
    platform: Platform, secret: str, headers: Mapping[str, str], body: bytes, now: float
) -> str | None:
    """Return why a request is not proven to be the platform's, or None; in a time independent of the secret.

    The names of `headers` are in lower case, unless the mapping knows them in any.
    """
    return (
        "the platform proves nothing"
        if platform.proof is None
        else platform.proof(secret, headers, body, now)
    )


def verify_token(secret: str) -> str:
    """Return what a handshake shows in its URL: it comes of the secret, which is never in one."""
    return signed(secret.encode(), b"hub.verify_token").hex()[:32]
