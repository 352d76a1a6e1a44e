"""Embedders for tools: one that remembers what it embedded, and one that makes vectors of a text's words."""

from collections.abc import Sequence
from math import hypot

import pytest

from ops.dev.embedders import RememberingEmbedder, WordMeansEmbedder
from pipeline.clients.deterministic import DeterministicEmbedder
from schemas.vectors import Vector


class CountingEmbedder(DeterministicEmbedder):
    """Notes what it embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.seen.extend(texts)
        return super().embed_documents(texts)


def test_a_text_is_embedded_once() -> None:
    inner = CountingEmbedder()
    remembering = RememberingEmbedder(inner)
    found = remembering.embed_documents(["one", "two", "one"])
    again = remembering.embed_documents(["two", "three"])
    assert inner.seen == ["one", "two", "three"]
    assert found[0] == found[2] != found[1] == again[0]
    assert found[0] == pytest.approx(CountingEmbedder().embed_documents(["one"])[0], abs=1e-6)


def test_vectors_of_words_lie_near_questions_of_the_same_words() -> None:
    model = DeterministicEmbedder()
    texts = ["The boiler shows E41 again.", "Lunch at Pavlos tomorrow?"]
    vectors = WordMeansEmbedder(model).embed_documents(texts)
    question = model.embed_query("boiler shows E41")
    near, far = (sum(a * b for a, b in zip(question, vector, strict=True)) for vector in vectors)
    assert near > far
    assert hypot(*vectors[0]) == pytest.approx(1, abs=0.01)
