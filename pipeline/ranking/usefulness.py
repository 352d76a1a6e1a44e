"""How useful a memory is: where there are too many of a user, the least useful go first."""

import math

HALF_LIFE_DAYS = 90
"""What nobody was shown for this long is half as useful."""
USES = 15
"""Above this many, being shown again says nothing more."""


def usefulness(importance: float, uses: int, idle_days: float) -> float:
    """Return `(1 + importance) · (1 + log16(1 + uses)) · 0.5^(idle_days / 90)`, with at most 15 uses.

    `importance` is 0 to 10, `uses` how often it was shown, and `idle_days` how long ago it was last shown, or else
    written. Being shown often doubles it at most, so that what matters is not driven out by what is asked for daily.

    >>> usefulness(1, 0, 0), usefulness(9, 0, 180), usefulness(1, 15, 90)
    (2.0, 2.5, 2.0)
    """
    used = math.log(1 + min(uses, USES), 1 + USES)
    return float((1 + importance) * (1 + used) * 0.5 ** (max(idle_days, 0.0) / HALF_LIFE_DAYS))
