"""Tokenizers of language models, from the `tokens` extra; for other models tokens are estimated."""

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from pipeline.text.tokens import ESTIMATE, Tokenizer

# Vocabularies by prefixes of model names, as in tiktoken's `model.py`; the first match counts.
_VOCABULARIES = {
    "o200k_base": ("gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "chatgpt-4o", "o1", "o3", "o4-mini"),
    "cl100k_base": ("gpt-4", "gpt-3.5"),
}


def tokenizer_for(model: str | None) -> Tokenizer:
    """Return the model's own tokenizer if it is known and installed, else the estimate."""
    name = (model or "").rpartition("/")[2].lower()
    vocabulary = next((key for key, models in _VOCABULARIES.items() if name.startswith(models)), None)
    if vocabulary is None or find_spec("bpe_openai") is None:
        return ESTIMATE
    return _loaded(vocabulary)


@lru_cache(maxsize=4)
def _loaded(vocabulary: str) -> Tokenizer:
    import bpe_openai

    encoding: Any = bpe_openai.get_encoding(vocabulary)

    def count(text: str) -> int:
        # With the end of its line: no token of these vocabularies crosses a line end, so lines add up.
        return len(encoding.encode_ordinary(text + "\n"))

    return Tokenizer(name=vocabulary, count=count)
