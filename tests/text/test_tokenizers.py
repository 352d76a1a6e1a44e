"""Tokens are counted by the tokenizer of the model that will read them, where it is at hand."""

from importlib.util import find_spec

import pytest

from pipeline.clients.tokenizers import tokenizer_for
from pipeline.text.tokens import estimate
from pipeline.text.truncate import within_tokens

pytestmark = pytest.mark.skipif(find_spec("bpe_openai") is None, reason="the extra `tokens` is not installed")


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


def test_text_is_cut_to_what_the_model_counts() -> None:
    text = "internationalization of the plumber " * 30
    count = tokenizer_for("gpt-4o").count
    cut = within_tokens(text, 20, count)
    assert count(cut) <= 20 < count(text)
    # the estimate errs on the safe side
    assert estimate(text) >= count(text)
