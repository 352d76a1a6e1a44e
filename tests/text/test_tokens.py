"""Tokens are counted by the tokenizer of the model that will read them, or estimated so that lines add up."""

from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clients.known_models import tokenizer_for
from pipeline.text.tokens import estimate, estimate_line
from pipeline.text.truncate import within_tokens

with_vocabularies = pytest.mark.skipif(
    find_spec("bpe_openai") is None, reason="the extra `tokens` is not installed"
)


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


@with_vocabularies
@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4.1-mini", "o200k_base"),
        ("openai/gpt-4o-2024-08-06", "o200k_base"),
        ("GPT-4-turbo", "cl100k_base"),
        ("llama3", "estimate"),
        (None, "estimate"),
    ],
)
def test_a_known_model_is_counted_by_its_vocabulary(model: str | None, name: str) -> None:
    assert tokenizer_for(model).name == name


@with_vocabularies
def test_text_is_cut_to_what_the_model_counts() -> None:
    text = "internationalization of the plumber " * 30
    count = tokenizer_for("gpt-4o").count
    cut = within_tokens(text, 20, count)
    assert count(cut) <= 20 < count(text)
    # the estimate errs on the safe side
    assert estimate(text) >= count(text)
