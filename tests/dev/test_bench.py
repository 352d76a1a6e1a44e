"""Benchmarks measure the shipped path, and say whether what is promised was kept."""

import pytest

from ops.dev import shipped
from ops.dev.bench import direct, served
from ops.dev.figures import Figure, benchmark
from schemas.settings import Settings


def test_a_limit_is_kept_from_the_right_side_and_one_that_is_not_is_a_violation() -> None:
    figures = [
        Figure("context", 59, "ms", most=60),
        Figure("search", 61, "ms", most=60),
        Figure("narrowing", 100, "ms", ratio=2.9, least=3),
        Figure("kills", 1000),
    ]
    assert [figure.kept for figure in figures] == [True, False, False, True]
    outcome = benchmark("all", figures)
    assert outcome.violations == ["search: not within its limit", "narrowing: not within its limit"]
    assert [one["kept"] for one in outcome.found["results"]] == [True, False, False, True]


def test_contexts_searches_and_memory_are_measured(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given so few messages as more, of which vectors are means of words
    monkeypatch.setattr(shipped, "EMBEDDED_UP_TO", 100)
    monkeypatch.setattr(direct, "NARROWED_FROM", 300)
    monkeypatch.setattr(direct, "QUESTIONS", 3)
    monkeypatch.setattr(direct, "QUESTIONS_NARROWED", 3)
    found = list(direct.measure_messages(settings, 300, 2, lambda _: None))
    limited = {each.case for each in found if each.most is not None or each.least is not None}
    assert limited == {
        *("context, p95", "top-10 search, p95", "embedding", "memory for 10,000 messages"),
        *("narrowed search", "by a narrowed search"),
    }
    assert all(each.value > 0 for each in found if "growth" not in each.case)


def test_one_asker_and_two_over_http_are_measured(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "CONTEXT_ROUNDS", 1)
    monkeypatch.setattr(served, "CONTEXT_SECONDS", 0.5)
    monkeypatch.setattr(served, "ASKERS", 2)
    found = served.measure_contexts(settings, 100, 2, lambda _: None)
    by_case = {each.case: each.value for each in found}
    assert by_case["one asker over HTTP"] > 0
    assert by_case["2 askers over HTTP"] > 0
    assert 0 < by_case["one asker over HTTP, median"] <= by_case["one asker over HTTP, p95"]
