"""A token estimate is near what tokenizers count, and lines add up."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.tokens import estimate, estimate_line


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("the boiler", 2),
        ("unbelievable", 2),
        ("I'll go", 3),
        ("2026", 2),
        ("日本語", 3),
        ("привет", 3),
        ("👍!", 2),
    ],
)
def test_the_formula_in_examples(text: str, tokens: int):
    assert estimate(text) == tokens


@given(st.text(alphabet="aZ09é日–_.’ \n"))
def test_the_formula_as_it_is_written(text: str):
    runs = re.findall(r"[A-Za-z]+|[0-9]+|[^\W\d_]+|\S", text)
    ascii_letters = [run for run in runs if run.isascii() and run.isalpha()]
    digits = [run for run in runs if run.isdigit()]
    others = [run for run in runs if run not in ascii_letters and run.isalpha()]
    expected = sum(-(-len(run) // 7) for run in ascii_letters) + sum(-(-len(run) // 3) for run in digits)
    expected += sum(len(run) if run[0] == "日" else -(-len(run) // 2) for run in others)
    assert estimate(text) == expected + sum(not run.isalnum() for run in runs)


@given(st.text(), st.text())
def test_two_texts_with_a_space_between_are_the_sum(one: str, other: str):
    assert estimate(f"{one} {other}") == estimate(one) + estimate(other)


@given(st.text(min_size=1))
def test_a_text_never_has_more_tokens_than_characters(text: str):
    assert estimate(text) <= len(text)


@given(st.lists(st.text(alphabet="aZ09é日–_.’ ", min_size=1).filter(str.strip), min_size=1))
def test_lines_one_under_the_other_are_the_sum(lines: list[str]):
    assert estimate_line("\n".join(lines)) == sum(map(estimate_line, lines))
