"""Tokenizers of language models, from the `tokens` extra; all others are estimated."""

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from pipeline.text.tokens import ESTIMATE, Tokenizer

# Which model reads by which vocabulary, as tiktoken's `model.py` has it; the first beginning that fits counts.
_VOCABULARIES = (
    ("gpt-4o", "o200k_base"),
    ("gpt-4.1", "o200k_base"),
    ("gpt-4.5", "o200k_base"),
    ("gpt-5", "o200k_base"),
    ("chatgpt-4o", "o200k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4-mini", "o200k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-3.5", "cl100k_base"),
)


def tokenizer_for(model: str | None) -> Tokenizer:
    """Return the model's own tokenizer if it is known and installed, else the estimate."""
    name = (model or "").rpartition("/")[2].lower()
    vocabulary = next((found for beginning, found in _VOCABULARIES if name.startswith(beginning)), None)
    if vocabulary is None or find_spec("bpe_openai") is None:
        return ESTIMATE
    return _loaded(vocabulary)


@lru_cache(maxsize=4)
def _loaded(vocabulary: str) -> Tokenizer:
    import bpe_openai

    encoding: Any = bpe_openai.get_encoding(vocabulary)

    def count(text: str) -> int:
        # With the end of its line: these vocabularies know no token that goes on after one, so lines add up.
        return len(encoding.encode_ordinary(text + "\n"))

    return Tokenizer(name=vocabulary, count=count)
