"""Cut work into parts that fit one transaction."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batched(
    items: Iterable[T], max_items: int, max_size: float = 0, size: Callable[[T], float] = lambda _: 0
) -> Iterator[list[T]]:
    """Yield the items in order, in batches of at most `max_items` items and `max_size` in total, but of one at least.

    >>> list(batched([1, 2, 3, 9, 1], 2)), list(batched([1, 2, 3, 9, 1], 5, 6, float))
    ([[1, 2], [3, 9], [1]], [[1, 2, 3], [9], [1]])
    """
    batch: list[T] = []
    total = 0.0
    for item in items:
        item_size = size(item)
        if batch and (len(batch) == max_items or total + item_size > max_size):
            yield batch
            batch, total = [], 0.0
        batch.append(item)
        total += item_size
    if batch:
        yield batch
