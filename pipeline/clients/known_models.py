"""Properties of well-known models, by name: prefixes and languages of embedders, tokenizers of language models."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from pipeline.text.tokens import ESTIMATE, Tokenizer
from schemas.languages import NON_LATIN, parts_of

_QUERY, _PASSAGE = "query: ", "passage: "
_SENTENCE_TRANSFORMERS = "sentence-transformers"
_BGE = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True, kw_only=True)
class KnownModel:
    """A model's prefixes, dimensions and limits, according to its card."""

    # dimensions of a vector; None: measured by one call
    dimensions: int | None = None
    query_prefix: str = ""
    document_prefix: str = ""
    # tokens of a text that it reads; most unknown models read this many
    max_tokens: int = 512
    # whether it was trained to answer with fewer dimensions, too
    shortens: bool = False
    # its owner on the hub, if it is known by a short name
    owner: str = ""


_NOMIC = KnownModel(
    dimensions=768, query_prefix="search_query: ", document_prefix="search_document: ", max_tokens=2048
)
_E5 = {
    f"{family}-{size}{version}": KnownModel(
        dimensions=dimensions, query_prefix=_QUERY, document_prefix=_PASSAGE
    )
    for size, dimensions in (("small", 384), ("base", 768), ("large", 1024))
    for family, version in (("multilingual-e5", ""), ("e5", ""), ("e5", "-v2"))
}
_KNOWN = {
    **_E5,
    "text-embedding-3-small": KnownModel(dimensions=1536, max_tokens=8191, shortens=True),
    "text-embedding-3-large": KnownModel(dimensions=3072, max_tokens=8191, shortens=True),
    "text-embedding-ada-002": KnownModel(dimensions=1536, max_tokens=8191),
    "nomic-embed-text": _NOMIC,
    "nomic-embed-text-v1.5": replace(_NOMIC, shortens=True),
    "mxbai-embed-large": KnownModel(dimensions=1024, query_prefix=_BGE),
    "mxbai-embed-large-v1": KnownModel(dimensions=1024, query_prefix=_BGE),
    "bge-small-en-v1.5": KnownModel(dimensions=384, query_prefix=_BGE, owner="BAAI"),
    "bge-base-en-v1.5": KnownModel(dimensions=768, query_prefix=_BGE),
    "bge-large-en-v1.5": KnownModel(dimensions=1024, query_prefix=_BGE),
    "bge-large": KnownModel(dimensions=1024, query_prefix=_BGE),
    "bge-m3": KnownModel(dimensions=1024, max_tokens=8192),
    "all-minilm": KnownModel(dimensions=384, max_tokens=256),
    "all-MiniLM-L6-v2": KnownModel(dimensions=384, max_tokens=256, owner=_SENTENCE_TRANSFORMERS),
    "all-mpnet-base-v2": KnownModel(dimensions=768, owner=_SENTENCE_TRANSFORMERS),
    "paraphrase-multilingual-MiniLM-L12-v2": KnownModel(dimensions=384, owner=_SENTENCE_TRANSFORMERS),
    "snowflake-arctic-embed2": KnownModel(dimensions=1024, query_prefix=_QUERY, max_tokens=8192),
    "embeddinggemma": KnownModel(
        dimensions=768,
        query_prefix="task: search result | query: ",
        document_prefix="title: none | text: ",
        max_tokens=2048,
    ),
}


def known_model(name: str) -> KnownModel:
    """Return the properties of a model, whose name may have an owner before it and a tag after it.

    >>> known_model("nomic-embed-text:latest") == known_model("nomic-ai/nomic-embed-text")
    True
    >>> known_model("mine").dimensions is None
    True
    """
    bare = name.rpartition("/")[2]
    model, _, tag = bare.partition(":")
    # other tags may mean other sizes
    return _KNOWN.get(model, KnownModel()) if tag in ("", "latest", "v1.5") else KnownModel()


# The first match decides; a name without a match says nothing.
_MANY = re.compile(
    r"multilingual|bge-m3|labse|distiluse|text-embedding-(?:3|ada)|jina-embeddings-v[3-9]|embeddinggemma|qwen3-embedding"
    r"|nomic-embed-text-v2|arctic-embed2|arctic-embed-[ml]-v2|bge-multi|gte-qwen"
)
_ENGLISH = re.compile(
    r"all-minilm|all-mpnet|all-distilroberta|multi-qa-|msmarco-|paraphrase-|nq-distilbert|bge-(?:small|base|large)|"
    r"\be5-(?:small|base|large)|\bgte-(?:small|base|large|modernbert)|nomic-embed-text|mxbai-embed|arctic-embed|"
    r"granite-embedding"
)


def knows(model: str, language: str) -> bool | None:
    """Tell whether an embedding model knows all of a chat's languages; None: unknown.

    >>> knows("all-MiniLM-L6-v2", "german+english"), knows("intfloat/multilingual-e5-small", "turkish")
    (False, True)
    >>> knows("house-model-7", "german") is None, knows("all-MiniLM-L6-v2", "simple") is None
    (True, True)
    """
    name = model.lower()
    if set(parts_of(language)) == {"simple"}:
        return None
    if _MANY.search(name):
        return True
    if _ENGLISH.search(name):
        return set(parts_of(language)) <= {"english", "simple"}
    return None


def reads(model: str, language: str) -> bool:
    """Tell whether an embedding model can use a chat's texts at all; True if its languages are unknown.

    An English model can use languages in the same script to some extent, and no others.

    >>> [reads("all-MiniLM-L6-v2", language) for language in ("german", "chinese", "chinese+english")]
    [True, False, True]
    >>> reads("intfloat/multilingual-e5-small", "chinese"), reads("house-model-7", "chinese")
    (True, True)
    """
    return knows(model, language) is not False or not NON_LATIN.issuperset(parts_of(language))


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
