"""How much the asker of a question has to do with others in the chat, by the sessions that they share."""

import math
from collections.abc import Mapping
from typing import NamedTuple

# Who is in so many times as many of the asker's sessions as by chance counts in full.
FULL_LIFT = 4.0


class Shared(NamedTuple):
    """The sessions in which somebody spoke."""

    # all of them
    sessions: int
    # those in which the asker spoke, too
    with_asker: int


def affinities(people: Mapping[str, Shared], sessions: int, asker: str | None) -> dict[str, float]:
    """Return for everybody who speaks with the asker more often than by chance how much more, from above 0.

    It is `log(lift) / log(FULL_LIFT)`, the lift being the share of the asker's sessions in which they spoke, over the
    share of all `sessions`: their pointwise mutual information (Church and Hanks, Word Association Norms, Mutual
    Information, and Lexicography, 1990). Where all speak in all sessions, as in a direct chat, there is none; the asker
    has the more, the fewer sessions they spoke in.

    >>> affinities({"Ana": Shared(5, 5), "Ben": Shared(20, 5), "Eve": Shared(80, 4)}, 80, "Ana")
    {'Ana': 2.0, 'Ben': 1.0}
    """
    if asker is None or asker not in people:
        return {}
    expected = people[asker].sessions / sessions
    lifts = {name: shared.with_asker / (expected * shared.sessions) for name, shared in people.items()}
    return {name: round(math.log(lift, FULL_LIFT), 6) for name, lift in lifts.items() if lift > 1}
