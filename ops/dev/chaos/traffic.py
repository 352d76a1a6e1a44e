"""The messages of a run: many chats of two tenants, out of order, with duplicates; made from a seed only.

Their texts are in many scripts, and of any length that a message may have. In the tenant of the HTTP API some are
edited or deleted, before they come or after; one person and one chat are forgotten.
"""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from ops.dev.deployed.deployment import API_TENANT, PAYLOAD_TENANT
from ops.dev.scripts import any_text
from schemas.messages import MAX_CONTENT_BYTES, MessageIn

Key = tuple[str, str, str]
"""(tenant, chat, external id)"""
START = datetime(2025, 1, 6, 8, 0, tzinfo=UTC)
PEOPLE = ("Ann", "Боб", "小明", "Δήμητρα", "Ève")
# Says one message in a hundred, and is forgotten.
FORGOTTEN = "Fay"
FORGOTTEN_SENDER = "chaos:fay"
FORGOTTEN_CHAT = "chaos:0"
SHORT = ("ok", "спасибо", "明天见", "👍🏽", "see you tomorrow")
NAMES = "Bea Évora Łucja Маша 小雨".split()
# Room for what is put around a text.
_MOST_BYTES = MAX_CONTENT_BYTES - 100
MESSAGES_PER_CHAT = 80
LARGEST_BATCH = 12
DUPLICATES = 0.1
EDITED, DELETED = 0.02, 0.01
# How far a message may come before or after its place in the chat.
DISORDER = 40


@dataclass(frozen=True, kw_only=True)
class Sending:
    """Messages of one chat that are handed over together, or one as it is edited, or which is deleted."""

    tenant: str
    chat: str
    messages: Sequence[MessageIn]
    method: Literal["POST", "PATCH", "DELETE"] = "POST"
    # of an edit
    edited_at: datetime = START

    @property
    def keys(self) -> list[Key]:
        """Name the messages."""
        return [(self.tenant, self.chat, message.external_id) for message in self.messages]


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What is to be sent."""

    # in the order of sending
    sendings: Sequence[Sending]
    # the unique messages by (tenant, chat, external id), as they are at the end
    originals: Mapping[Key, MessageIn]
    # those that must not be there at the end: deleted, or forgotten
    gone: Collection[Key]
    # messages that come a second time
    duplicates: int


def make(messages: int, seed: int) -> Traffic:
    """Make unique messages, a tenth of them sent twice; two chats of three belong to the HTTP API's tenant."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    chats = max(6, messages // MESSAGES_PER_CHAT)
    originals: dict[Key, MessageIn] = {}
    gone: set[Key] = set()
    placed: list[tuple[float, Sending]] = []
    duplicates = 0
    for number in range(chats):
        tenant = PAYLOAD_TENANT if number % 3 == 2 else API_TENANT
        count = messages // chats + (number < messages % chats)
        chat = f"chaos:{number}"
        talk = [
            message.model_copy(update={"content": message.content + _mark(chat, message)})
            for message in _conversation(rng, count, named=number % 4 == 1)
        ]
        originals |= {(tenant, chat, message.external_id): message for message in talk}
        cut = list(_batches(rng, _disordered(rng, talk)))
        placed += [
            ((place + rng.random()) / len(cut), Sending(tenant=tenant, chat=chat, messages=batch))
            for place, batch in enumerate(cut)
        ]
        duplicates += sum(map(len, cut)) - count
        if tenant == API_TENANT:
            for change in _changes(rng, chat, talk):
                (key,), (message,) = change.keys, change.messages
                if change.method == "DELETE":
                    gone.add(key)
                originals[key] = message
                placed.append((rng.random(), change))
            gone |= {(tenant, chat, m.external_id) for m in talk if _is_forgotten(chat, m)}
    return Traffic(
        sendings=[sending for _, sending in sorted(placed, key=lambda pair: pair[0])],
        originals=originals,
        gone=gone,
        duplicates=duplicates,
    )


def _is_forgotten(chat: str, message: MessageIn) -> bool:
    return chat == FORGOTTEN_CHAT or message.sender_id == FORGOTTEN_SENDER


def _changes(rng: random.Random, chat: str, messages: Sequence[MessageIn]) -> Iterator[Sending]:
    for message in messages:
        drawn = rng.random()
        if drawn < EDITED + DELETED:
            content = f"It was {_text(rng)}{_mark(chat, message)}" if drawn < EDITED else message.content
            yield Sending(
                tenant=API_TENANT,
                chat=chat,
                messages=[message.model_copy(update={"content": content})],
                method="PATCH" if drawn < EDITED else "DELETE",
                edited_at=message.sent_at + timedelta(seconds=rng.uniform(1, 600)),
            )


def _conversation(rng: random.Random, count: int, *, named: bool) -> list[MessageIn]:
    """Make sessions of some eight messages; in a `named` chat half of them have keys or threads, and some end early."""
    at = START + timedelta(hours=rng.uniform(0, 1000))
    key, thread = "", None
    messages = []
    for number in range(count):
        if rng.random() < 0.12:
            at += timedelta(minutes=rng.uniform(25, 400))
            key = f"thread-{rng.randrange(5)}" if named and rng.random() < 0.4 else ""
            thread = str(rng.randrange(3)) if named and rng.random() < 0.3 else None
        else:
            at += timedelta(seconds=rng.uniform(0, 240))
        speaker = FORGOTTEN if rng.random() < 0.01 else rng.choice(PEOPLE)
        messages.append(
            MessageIn(
                external_id=f"m{number}",
                sender_id=f"chaos:{speaker.lower()}",
                sender_name=speaker,
                content=_text(rng),
                sent_at=at,
                position=rng.randrange(2),
                session_key=key,
                thread=thread,
                closes_session=bool(key) and rng.random() < 0.1,
            )
        )
    return messages


def _mark(chat: str, message: MessageIn) -> str:
    """Return what marks a text that is to be forgotten: it is searched for, and must not be found."""
    return f" ({chat} {message.external_id})" if _is_forgotten(chat, message) else ""


def _text(rng: random.Random) -> str:
    """Return a sentence; sometimes nothing (a picture), what to be called, or what others have said word for word."""
    kind = rng.random()
    if kind < 0.03:
        return ""
    if kind < 0.15:
        return rng.choice(SHORT)
    if kind < 0.2:
        return f"Bot, call me {rng.choice(NAMES)}."
    return any_text(rng, _MOST_BYTES)


def _disordered(rng: random.Random, messages: Sequence[MessageIn]) -> list[MessageIn]:
    """Shuffle everything about where it belongs, and repeat a tenth of it."""
    numbered = list(enumerate(messages))
    placed = [(place + rng.uniform(0, DISORDER), message) for place, message in numbered]
    again = (pair for pair in numbered if rng.random() < DUPLICATES)
    placed += [(place + rng.uniform(0, 2 * DISORDER), message) for place, message in again]
    return [message for _, message in sorted(placed, key=lambda pair: pair[0])]


def _batches(rng: random.Random, messages: Sequence[MessageIn]) -> Iterator[Sequence[MessageIn]]:
    """Cut messages into batches of random sizes."""
    while messages:
        size = rng.randint(1, LARGEST_BATCH)
        yield messages[:size]
        messages = messages[size:]
