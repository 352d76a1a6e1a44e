"""The benchmark measures the shipped path, and says whether what is promised was kept."""

import random
from itertools import islice
from pathlib import Path

import pytest

from ops.dev.bench import contexts, english, messages
from ops.dev.bench.figures import Figure
from schemas.errors import InvalidInput
from schemas.settings import Settings


def test_a_limit_is_kept_from_the_right_side() -> None:
    assert Figure("context", 59, "ms", most=60).kept
    assert not Figure("context", 61, "ms", most=60).kept
    assert not Figure("narrowing", 100, "ms", ratio=2.9, least=3).kept


def test_large_chats_are_given_more_time() -> None:
    assert messages.context_limit_ms(100_000, 50) == 60
    assert messages.context_limit_ms(100_000, 1) == 150


def test_a_run_measures_everything(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "EMBEDDED_UP_TO", 100)
    monkeypatch.setattr(messages, "NARROWED_FROM", 300)
    found = messages.measure(settings, messages=300, chats=2, questions=3, say=lambda _: None)
    by_case = {each.case: each for each in found}
    limited = {case for case, each in by_case.items() if each.most is not None or each.least is not None}
    assert limited == {
        *("context, p95", "top-10 search, p95", "embedding", "memory for 10,000 messages"),
        *("narrowed search", "by a narrowed search"),
    }
    assert all(each.value > 0 for each in found if "growth" not in each.case)


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
    found = {
        each.case: each for each in contexts.figures(1000, 1, {"before": slow, "after": costs}, rates, 8)
    }
    assert [case for case, each in found.items() if not each.kept] == ["after: context, p95"]
    assert found["before: statements, median"].most is None
    assert found["after: statements, median"].most == contexts.MOST_STATEMENTS
    assert found["after: 8 askers over HTTP"].ratio == 1.8


def test_a_checkout_without_an_environment_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no checkout") as refused:
        contexts.checkouts(tmp_path)
    assert refused.value.field == "against"
    assert list(contexts.checkouts(None)) == ["after"]


def test_one_asker_and_two_are_measured_on_a_database_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_EMBEDDING_PROVIDER", "deterministic")
    monkeypatch.setattr(contexts, "ROUNDS", 1)
    monkeypatch.setattr(contexts, "ROUND_SECONDS", 1.0)
    found = contexts.measure(messages=120, chats=2, questions=4, askers=2, against=None, say=lambda _: None)
    by_case = {each.case: each.value for each in found}
    assert 0 < by_case["after: statements, median"] <= 12
    assert by_case["after: one asker over HTTP"] > 0
    assert by_case["after: 2 askers over HTTP"] > 0
