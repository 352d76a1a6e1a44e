"""The provider `sentence-transformers` runs the bundled model without network and finds meaning, not only words."""

import pytest

from pipeline.clients.factory import make_embedder
from pipeline.clients.sentence_transformers import SentenceTransformersEmbedder, is_installed
from schemas.errors import ProviderFailed, ProviderUnavailable
from schemas.settings import Settings

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not is_installed(), reason="the extra `sentence-transformers` is not installed"),
]


@pytest.fixture(scope="module")
def embedder() -> SentenceTransformersEmbedder:
    embedder = SentenceTransformersEmbedder()
    embedder.load()
    return embedder


def test_its_pooling_is_a_setting_that_makes_another_space(embedder: SentenceTransformersEmbedder):
    plain = Settings(_env_file=None, embedding_provider="sentence-transformers")
    chosen = make_embedder(plain.model_copy(update={"embedding_pooling": "cls"}))
    again = make_embedder(plain.model_copy(update={"embedding_model": "all-MiniLM-L6-v2#cls"}))
    assert embedder.count_tokens("the plumber") == 3  # the, plum, ##ber
    assert chosen.space.same_as(again.space)
    assert not chosen.space.same_as(embedder.space)
    vector = again.embed_query("the boiler is cold")
    own = embedder.embed_query("the boiler is cold")
    assert sum(a * b for a, b in zip(vector, own, strict=True)) < 0.99


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("index out of range in self"), ProviderFailed),
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

    monkeypatch.setattr(embedder.load(), "encode", fail)
    with pytest.raises(expected, match="all-MiniLM-L6-v2"):
        embedder.embed_documents(["a text that breaks it"])
