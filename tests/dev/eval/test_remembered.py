"""Embeddings that are remembered: each text is embedded once, also by the next run, and no text is kept."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ops.dev.eval.remembered import AT_ONCE, Remembering
from pipeline.clients.deterministic import DeterministicEmbedder
from schemas.vectors import EmbeddingSpace, Vector


class Counting(DeterministicEmbedder):
    """Notes what it embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.seen.extend(texts)
        return super().embed_documents(texts)


class OtherModel(Counting):
    """An embedder of another space."""

    @property
    def space(self) -> EmbeddingSpace:
        return replace(super().space, model="another")


def test_a_text_is_embedded_once() -> None:
    inner = Counting()
    remembering = Remembering(inner)
    found = remembering.embed_documents(["one", "two", "one"])
    again = remembering.embed_documents(["two", "three"])
    assert sorted(inner.seen) == ["one", "three", "two"]
    assert found[0] == found[2] != found[1] == again[0]
    assert found[0] == pytest.approx(Counting().embed_documents(["one"])[0], abs=1e-6)


def test_vectors_come_in_the_order_of_their_texts_however_many_there_are() -> None:
    texts = [f"text {number}" for number in range(AT_ONCE + 3)]
    found = Remembering(Counting()).embed_documents(texts)
    assert found == [Remembering(Counting()).embed_documents([text])[0] for text in texts]


def test_the_next_run_remembers_and_the_file_holds_no_text(tmp_path: Path) -> None:
    file = tmp_path / "vectors"
    first = Remembering(Counting(), file).embed_documents(["the boiler shows E41"])
    inner = Counting()
    assert Remembering(inner, file).embed_documents(["the boiler shows E41"]) == first
    assert inner.seen == []
    assert b"boiler" not in file.read_bytes()


def test_another_model_embeds_for_itself(tmp_path: Path) -> None:
    Remembering(Counting(), tmp_path / "vectors").embed_documents(["one"])
    other = OtherModel()
    Remembering(other, tmp_path / "vectors").embed_documents(["one"])
    assert other.seen == ["one"]
