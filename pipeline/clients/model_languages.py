"""Languages of embedding models, by the models' names."""

import re

from schemas.languages import NON_LATIN, parts_of

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
