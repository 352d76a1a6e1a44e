"""Properties of well-known embedding models, by name."""

from dataclasses import dataclass, replace

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
