"""Recognize texts that repeat others, by the words that they share."""

from collections.abc import Mapping, Sequence


def is_said(words: frozenset[str], said: Mapping[int, Sequence[frozenset[str]]], jaccard: float) -> bool:
    """Tell whether a set of words in `said`, which is by size, has a Jaccard index with these above `jaccard`."""
    size = len(words)
    for its_size, others in said.items():
        if size > jaccard * its_size and its_size > jaccard * size:
            for other in others:
                common = len(words & other)
                if common > jaccard * (size + its_size - common):
                    return True
    return False
