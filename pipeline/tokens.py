"""Estimate how many tokens a text is for a language model."""

import math


def estimate_tokens(text: str) -> int:
    """About how many tokens a language model makes of the text: four characters each, rounded up."""
    return math.ceil(len(text) / 4)
