"""The benchmark measures the shipped path, and says whether what is promised was kept."""

from itertools import islice
from math import hypot

import pytest

from ops.dev.bench import contexts, talk
from ops.dev.bench.contexts import context_limit_ms
from ops.dev.bench.figures import Figure
from pipeline.clients.deterministic import DeterministicEmbedder
from schemas.settings import Settings


def test_a_limit_is_kept_from_the_right_side() -> None:
    fast = Figure("context", 59, "ms", limit=60)
    slow = Figure("narrowing", 4.9, "times", limit=5, more_is_better=True)
    assert fast.kept
    assert not slow.kept


def test_large_chats_are_given_more_time() -> None:
    assert context_limit_ms(100_000, 50) == 60
    assert context_limit_ms(100_000, 1) == 150


def test_made_up_vectors_lie_near_questions_of_the_same_words() -> None:
    model = DeterministicEmbedder()
    said, other = list(islice(talk.conversation(1, 2), 2))
    vectors = talk.WordMeans(model).embed_documents([said.content, other.content])
    question = model.embed_query(said.content)
    near, far = (sum(a * b for a, b in zip(question, vector, strict=True)) for vector in vectors)
    assert near > far
    assert hypot(*vectors[0]) == pytest.approx(1, abs=0.01)


def test_a_run_measures_everything(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "EMBEDDED_UP_TO", 100)
    monkeypatch.setattr(contexts, "NARROWED_FROM", 300)
    found = contexts.measure(settings, messages=300, chats=2, questions=3, progress=lambda _: None)
    assert found["vectors"].startswith("made up")
    assert {"embed", "retrieve", "rank", "assemble", "other"} <= set(found["stages"])
    assert found["vector_search"] == "exact"
    assert found["narrowed"] is not None
    assert {gate["name"] for gate in contexts.as_dict(found)["gates"]} >= {"context, p95", "narrowing"}
    assert len(contexts.tables(found)) == 2
