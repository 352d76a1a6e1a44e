"""The bundled model runs without network and finds meaning, not only words."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from pipeline.clients.sentence_transformers import (
    BUNDLED_PACKAGE,
    SentenceTransformersEmbedder,
    is_installed,
)
from schemas.errors import ProviderFailed, ProviderUnavailable, SettingsError

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not is_installed(), reason="the `local` extra is not installed"),
]


@pytest.fixture(scope="module")
def embedder() -> SentenceTransformersEmbedder:
    embedder = SentenceTransformersEmbedder()
    embedder.load()
    return embedder


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_a_question_is_nearest_to_what_answers_it(embedder: SentenceTransformersEmbedder):
    query = embedder.embed_query("who repairs the heating?")
    answer, other = embedder.embed_documents(["the plumber fixed our boiler", "pizza at eight tonight"])

    assert len(query) == embedder.space.dimensions == 384
    assert cosine(query, answer) > cosine(query, other) + 0.2


def test_a_text_has_one_vector_whatever_stands_beside_it(embedder: SentenceTransformersEmbedder):
    texts = ["short", "a much longer text " * 30, "", "日本語"]
    together = embedder.embed_documents(texts)
    queries = [embedder.embed_query(text) for text in texts]

    assert embedder.embed_documents([]) == []
    for left, right in zip(together, queries, strict=True):
        assert cosine(left, right) == pytest.approx(1, abs=1e-3)


def test_what_is_saved_on_the_weights_is_not_seen_in_the_vectors(embedder: SentenceTransformersEmbedder):
    from sentence_transformers import SentenceTransformer

    package = find_spec(BUNDLED_PACKAGE)
    assert package is not None
    assert package.origin is not None
    whole = SentenceTransformer(str(Path(package.origin).parent / "model"), device="cpu")
    texts = ["When?", "who repairs the heating?", "the plumber from Almada came at eight " * 20, "日本語"]

    in_float32 = whole.encode(texts, normalize_embeddings=True, show_progress_bar=False).tolist()

    for text, vector in zip(texts, in_float32, strict=True):
        assert cosine(embedder.embed_query(text), vector) > 0.9999
        assert cosine(embedder.embed_documents([text])[0], vector) > 0.9999


def test_word_pieces_are_counted_as_the_model_reads_them(embedder: SentenceTransformersEmbedder):
    assert embedder.max_tokens == 254
    assert embedder.count_tokens("the plumber") == 3  # the, plum, ##ber
    assert embedder.count_tokens("word " * 5000) == 5000


def test_its_hub_name_names_the_same_space(embedder: SentenceTransformersEmbedder):
    assert SentenceTransformersEmbedder("sentence-transformers/all-MiniLM-L6-v2").space == embedder.space


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="BACKSCROLL_EMBEDDING_MODEL"):
        SentenceTransformersEmbedder(str(tmp_path)).load()


def test_a_question_read_without_its_batch_has_the_same_vector(
    embedder: SentenceTransformersEmbedder, monkeypatch: pytest.MonkeyPatch
):
    from pipeline.clients import torch_layers

    texts = ["When?", "who repairs the heating?", "the plumber from Almada came at eight " * 60, "日本語", ""]
    alone = [embedder.embed_query(text) for text in texts]
    monkeypatch.setattr(torch_layers, "is_bert", lambda model: False)

    for text, vector in zip(texts, alone, strict=True):
        assert embedder.embed_query(text) == pytest.approx(vector, abs=1e-6)


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
