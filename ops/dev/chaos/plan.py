"""Which faults a run makes, in which order and for how long: drawn only from a seed."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

# Each ends processes without warning; those of workers in the middle of the kind of work named.
KILLS = (
    "kill-accept",
    "kill-ingest",
    "kill-embed",
    "kill-summarize",
    "kill-backfill",
    "kill-sweep",
    "freeze-worker",
    "kill-api",
    "kill-beat",
    "redis-restart",
    "redis-empty",
    "postgres-restart",
    "clock-shift",
)
# Each disturbs processes that live on.
OTHERS = (
    "redis-full",
    "redis-flush",
    "redis-drop",
    "postgres-freeze",
    "postgres-refuse",
    "disk-full",
    "provider-hang",
    "provider-fail",
    "provider-rubbish",
    "provider-late",
)

SHORTEST_SECONDS, LONGEST_SECONDS = 0.5, 3.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault to be made."""

    # one of `KILLS` or `OTHERS`
    kind: str
    # how long it lasts, where it lasts
    seconds: float
    # whether the next one waits until everything has recovered, or comes on top
    alone: bool
    # chooses among processes that it may hit, from 0 to 1
    choice: float


def draw(kills: int, seed: int, without: Collection[str] = ()) -> list[Fault]:
    """`kills` faults that end processes and half as many others, mixed; every kind as often as any other.

    `without` names kinds that cannot be made here.

    >>> draw(3, 7) == draw(3, 7)
    True
    >>> len(draw(30, 1))
    45
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    others = [kind for kind in OTHERS if kind not in without]
    kinds = [*_deal(KILLS, kills, rng), *_deal(others, (kills + 1) // 2, rng)]
    rng.shuffle(kinds)
    return [
        Fault(
            kind=kind,
            seconds=round(rng.uniform(SHORTEST_SECONDS, LONGEST_SECONDS), 2),
            alone=rng.random() < 0.5,
            choice=rng.random(),
        )
        for kind in kinds
    ]


def _deal(kinds: Sequence[str], count: int, rng: random.Random) -> list[str]:
    dealt: list[str] = []
    while len(dealt) < count:
        dealt += rng.sample(kinds, len(kinds))
    return dealt[:count]
