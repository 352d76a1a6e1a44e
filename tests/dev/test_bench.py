"""The benchmark measures the shipped path, and says whether what is promised was kept."""

import random
from itertools import islice
from math import hypot
from pathlib import Path

import pytest

from ops.dev.bench import askers, contexts, english, talk
from ops.dev.bench.contexts import context_limit_ms
from ops.dev.bench.figures import Figure
from pipeline.clients.deterministic import DeterministicEmbedder
from schemas.errors import InvalidInput
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


def test_made_up_english_is_talk_and_asks_in_its_own_words() -> None:
    said = list(islice(english.talk(1, 300), 300))
    assert said == list(islice(english.talk(1, 300), 300))
    assert [message.sent_at for message in said] == sorted(message.sent_at for message in said)
    words = {word.strip(".,?!").lower() for message in said for word in message.content.split()}
    rng = random.Random(1)
    asked = [english.question(rng) for _ in range(50)]
    things = {word.strip(".,?!").lower() for question in asked for word in question.split()} & {
        *english.THINGS
    }
    assert len(things) > 20
    assert len(things & words) > 15


def test_only_this_checkout_is_judged_and_by_time_statements_and_throughput() -> None:
    costs = [{"ms": 40.0, "cpu_ms": 20.0, "statements": 8.0}] * 20
    slow = [{"ms": 400.0, "cpu_ms": 20.0, "statements": 19.0}] * 20
    rates = {"before": {1: [0.1] * 10, 8: [0.1] * 11}, "after": {1: [0.1] * 10, 8: [0.1] * 18}}
    found = {each.case: each for each in askers.figures(1000, 1, {"before": slow, "after": costs}, rates, 8)}
    assert [case for case, each in found.items() if not each.kept] == ["after: context, p95"]
    assert found["before: statements, median"].limit is None
    assert found["after: statements, median"].limit == askers.MOST_STATEMENTS
    assert found["after: 8 askers over HTTP"].ratio == 1.8


def test_a_checkout_without_an_environment_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no checkout") as refused:
        askers.checkouts(tmp_path)
    assert refused.value.field == "against"
    assert list(askers.checkouts(None)) == ["after"]


def test_one_asker_and_two_are_measured_on_a_database_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_EMBEDDING_PROVIDER", "deterministic")
    monkeypatch.setattr(askers, "ROUNDS", 1)
    monkeypatch.setattr(askers, "ROUND_SECONDS", 1.0)
    found = askers.measure(messages=120, chats=2, questions=4, askers=2, against=None, say=lambda _: None)
    by_case = {each.case: each.value for each in found}
    assert 0 < by_case["after: statements, median"] <= 12
    assert by_case["after: one asker over HTTP"] > 0
    assert by_case["after: 2 askers over HTTP"] > 0
