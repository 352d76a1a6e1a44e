"""Everyday talk of a large group, made up: bursts of messages about what people in such chats talk about."""

import random
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any

from schemas.messages import MessageIn

TALK = files("ops") / "dev" / "eval" / "group_chat"
_SLOT = re.compile(r"\{([a-z]+)\}")
# Messages of a burst: few that nobody answers, some that many do.
_LENGTHS = range(3, 18)
# Of the messages behind the first, those that only react.
_REACTIONS = 0.35
# Of all, those that begin with something else.
_NEXT_SUBJECT = 0.15
# Of the answers, those that say two things.
_TWOFOLD = 0.4
# Hours of the day at which a burst may begin, with the evening more often.
_HOURS = (*range(7, 23), 12, 17, 18, 18, 19, 19, 20, 20, 21)
# A longer burst is begun again elsewhere when one of the others' messages is so near.
APART = timedelta(minutes=20)
_TRIES = 50


@dataclass(frozen=True)
class Member:
    """Somebody of the group."""

    id: str
    name: str

    @property
    def first_name(self) -> str:
        return self.name.split()[0]


def talk(
    seed: int,
    messages: int,
    members: Sequence[Member],
    began: datetime,
    ended: datetime,
    *,
    without: Collection[str] = (),
    is_free: Callable[[datetime, datetime], bool] = lambda _, __: True,
) -> list[MessageIn]:
    """Return this many messages between two times, in order; the same seed makes the same.

    None holds a text of `without`, in upper or lower case. Bursts begin where `is_free` says that nobody else talks,
    unless there is hardly such a time.
    """
    rng = random.Random(seed)  # noqa: S311 - talk that can be made again, no secret
    # some write much and most write little
    weights = [1 / rank for rank in range(1, len(members) + 1)]
    order = rng.sample(members, len(members))
    unwanted = [piece.casefold() for piece in without]
    made: list[MessageIn] = []
    while len(made) < messages:
        length = min(rng.choice(_LENGTHS), messages - len(made))
        at = _time(rng, began, ended, is_free)
        speakers = list(dict.fromkeys(rng.choices(order, weights, k=rng.randint(3, 7))))
        for text in _burst(rng, length, order, unwanted):
            speaker = rng.choice(speakers)
            made.append(
                MessageIn(
                    external_id=f"talk:{len(made) + 1}",
                    sender_id=speaker.id,
                    sender_name=speaker.name,
                    content=text,
                    sent_at=at,
                )
            )
            at += timedelta(seconds=rng.randint(6, 70))
    return sorted(made, key=lambda message: message.sent_at)


def _time(
    rng: random.Random, began: datetime, ended: datetime, is_free: Callable[[datetime, datetime], bool]
) -> datetime:
    """Return when a burst begins."""
    days = max(int((ended - began).days), 1)
    at = began
    for _ in range(_TRIES):
        day = (began + timedelta(days=rng.randrange(days))).replace(hour=0, minute=0, second=0)
        at = day + timedelta(hours=rng.choice(_HOURS), seconds=rng.randrange(3600))
        if began <= at < ended - APART and is_free(at - APART, at + 2 * APART):
            break
    return min(max(at, began), ended - APART)


def _burst(rng: random.Random, length: int, members: Sequence[Member], unwanted: list[str]) -> Iterator[str]:
    """Make up what is said in one burst: somebody opens a subject, others answer and react."""
    data = _data()
    subject: Mapping[str, Any] = {}
    texts: set[str] = set()
    while len(texts) < length:
        if not texts or rng.random() < _NEXT_SUBJECT:
            subject = rng.choice(data["subjects"])
            line = rng.choice(subject["open"])
        elif rng.random() < _REACTIONS:
            line = rng.choice(data["reactions"])
        else:
            line, second = rng.sample(subject["reply"], 2)
            if rng.random() < _TWOFOLD:
                line += rng.choice((", ", ". ", " and ", " but ", " – ")) + second
        text = _filled(rng, line, members)
        if text not in texts and not any(piece in text.casefold() for piece in unwanted):
            texts.add(text)
            yield text


def _filled(rng: random.Random, line: str, members: Sequence[Member]) -> str:
    """Fill the slots of a line; what is filled in may have some of its own."""
    data = _data()

    def value(slot: re.Match[str]) -> str:
        match slot[1]:
            case "name":
                return rng.choice(members).first_name
            case "tails":
                return _filled(rng, rng.choice(data["tails"]), members)
            case name:
                return str(rng.choice(data["slots"][name]))

    return _SLOT.sub(value, line)


@cache
def _data() -> Mapping[str, Any]:
    return tomllib.loads((TALK / "talk.toml").read_text("utf-8"))
