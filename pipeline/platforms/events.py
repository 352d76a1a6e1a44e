"""The platforms whose events are accepted, and the parser of each."""

from collections.abc import Callable, Iterator
from typing import Any

from pipeline.platforms import matrix, standard
from pipeline.platforms.discord import events as discord
from pipeline.platforms.records import Event
from pipeline.platforms.slack import events as slack
from pipeline.platforms.telegram import events as telegram
from pipeline.platforms.whatsapp import baileys, cloud
from schemas.base import did_you_mean
from schemas.errors import InvalidInput, NotFound
from schemas.messages import MAX_BATCH

PARSERS: dict[str, Callable[[Any], Iterator[Event]]] = {
    "telegram": telegram.parse,
    "slack": slack.parse,
    "discord": discord.parse,
    "whatsapp": cloud.parse,
    "baileys": baileys.parse,
    "matrix": matrix.parse,
    "standard": standard.parse,
}


def parse(platform: str, value: Any, *, most: int | None = MAX_BATCH) -> list[Event]:
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
