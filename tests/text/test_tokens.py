"""A token estimate is on the high side, so that what fits by estimate fits in truth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tokens import estimate


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("the boiler", 2), ("unbelievable", 2), ("2026", 2), ("日本語", 3), ("привет", 3), ("👍!", 2)],
)
def test_the_formula_in_examples(text: str, tokens: int):
    assert estimate(text) == tokens


@given(st.text(), st.text())
def test_two_texts_with_a_space_between_are_the_sum(one: str, other: str):
    assert estimate(f"{one} {other}") == estimate(one) + estimate(other)


@given(st.text(min_size=1))
def test_a_text_never_has_more_tokens_than_characters(text: str):
    assert estimate(text) <= len(text)
