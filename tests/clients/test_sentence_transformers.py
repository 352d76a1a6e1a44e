"""The provider `sentence-transformers` runs the bundled model without network and finds meaning, not only words."""

import pytest

from pipeline.clients.sentence_transformers import (
    SentenceTransformersEmbedder,
    is_installed,
)
from schemas.errors import ProviderFailed, ProviderUnavailable, SettingsError

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not is_installed(), reason="the extra `sentence-transformers` is not installed"),
]


@pytest.fixture(scope="module")
def embedder() -> SentenceTransformersEmbedder:
    embedder = SentenceTransformersEmbedder()
    embedder.load()
    return embedder


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_word_pieces_are_counted_as_the_model_reads_them(embedder: SentenceTransformersEmbedder):
    assert embedder.max_tokens == 254
    assert embedder.count_tokens("the plumber") == 3  # the, plum, ##ber
    assert embedder.count_tokens("word " * 5000) == 5000


def test_its_hub_name_names_the_same_space(embedder: SentenceTransformersEmbedder):
    assert SentenceTransformersEmbedder("sentence-transformers/all-MiniLM-L6-v2").space == embedder.space


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="BACKSCROLL_EMBEDDING_MODEL"):
        SentenceTransformersEmbedder(str(tmp_path)).load()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("index out of range in self"), ProviderFailed),
        (IndexError("index out of range in self"), ProviderFailed),
        (MemoryError(), ProviderUnavailable),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), ProviderUnavailable),
    ],
)
def test_a_model_that_fails_may_do_so_because_of_the_text_and_one_without_memory_may_not(
    embedder: SentenceTransformersEmbedder,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    expected: type[Exception],
):
    def fail(*_: object, **__: object) -> None:
        raise error

    embedder.load()
    monkeypatch.setattr(embedder._model, "encode", fail)
    with pytest.raises(expected, match="all-MiniLM-L6-v2"):
        embedder.embed_documents(["a text that breaks it"])
