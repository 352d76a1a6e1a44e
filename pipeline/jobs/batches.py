"""Cut work into the parts that one transaction takes."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batched(
    items: Iterable[T], most: int, most_size: float = 0, size: Callable[[T], float] = lambda _: 0
) -> Iterator[list[T]]:
    """Yield the items in order, in batches of at most `most` items and `most_size` in all, but of one at least.

    >>> list(batched([1, 2, 3, 9, 1], 2)), list(batched([1, 2, 3, 9, 1], 5, 6, float))
    ([[1, 2], [3, 9], [1]], [[1, 2, 3], [9], [1]])
    """
    batch: list[T] = []
    total = 0.0
    for item in items:
        more = size(item)
        if batch and (len(batch) == most or total + more > most_size):
            yield batch
            batch, total = [], 0.0
        batch.append(item)
        total += more
    if batch:
        yield batch
