"""A token estimate is near what tokenizers count, and lines add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.tokens import estimate, estimate_line


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("the boiler", 2),
        ("日本語", 3),
        ("привет", 3),
        ("👍!", 2),
    ],
)
def test_the_formula_in_examples(text: str, tokens: int):
    assert estimate(text) == tokens


@given(st.text(), st.text())
def test_two_texts_with_a_space_between_are_the_sum(one: str, other: str):
    assert estimate(f"{one} {other}") == estimate(one) + estimate(other)


@given(st.lists(st.text(alphabet="aZ09é日–_.’ ", min_size=1).filter(str.strip), min_size=1))
def test_lines_one_under_the_other_are_the_sum(lines: list[str]):
    assert estimate_line("\n".join(lines)) == sum(map(estimate_line, lines))
