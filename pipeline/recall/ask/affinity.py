"""Compute the asker's affinity to others in the chat from the sessions in which both spoke."""

import math
from collections.abc import Mapping

from pipeline.store.search.prelude import Shared

# The lift that makes an affinity of 1.
FULL_LIFT = 4.0


def affinities(people: Mapping[str, Shared], sessions: int, asker: str | None) -> dict[str, float]:
    """Return the affinity of everybody who speaks in the asker's sessions more often than by chance, above 0.

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
