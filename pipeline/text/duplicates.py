"""Recognize texts that say the same as others, by the words that they share."""

from collections.abc import Mapping, Sequence


def is_said(words: frozenset[str], said: Mapping[int, Sequence[frozenset[str]]], jaccard: float) -> bool:
    """Whether one of the sets of words in `said`, by their size, overlaps with these by more than `jaccard`.

    That is their intersection over their union; at most the smaller over the larger, so that most sizes need no look.
    """
    size = len(words)
    for its_size, others in said.items():
        if size > jaccard * its_size and its_size > jaccard * size:
            for other in others:
                common = len(words & other)
                if common > jaccard * (size + its_size - common):
                    return True
    return False
