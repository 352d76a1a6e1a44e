"""Ordering anew: the blend that group chats know, fading by the day, and diversity."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.rank import rank
from pipeline.recall.rank.rank import Scored
from tests.recall.found import NOW, aged


def blend(hits: list[Scored]) -> list[Scored]:
    return rank.blended(hits, 2, NOW)


def order(hits: list[Scored]) -> list[int]:
    return [each.candidate.id for each in hits]


def test_age_takes_its_share_of_a_score_and_no_more() -> None:
    found = rank.faded([aged(1, 2.0, days=10), aged(2, 1.95, days=0), aged(3, 1.9, days=9_000)], NOW, 0.95)
    assert order(found) == [2, 1, 3]
    share = rank.FADING_SHARE
    assert [each.score for each in found] == [
        pytest.approx(1.95),
        pytest.approx(2.0 * (1 - share + share * 0.95**10)),
        pytest.approx(1.9 * (1 - share)),
    ]


def test_the_blend_gives_what_is_best_in_every_way_1_and_a_session_a_quarter_more() -> None:
    best = {"ranking": 2.0}
    for factor, whole in ((1.0, 1.0), (rank.SESSION_FACTOR, 1.25)):
        parts = rank.blend_parts(best, 2.0, timedelta(0), 1.0, factor)
        assert sum(parts.values()) == pytest.approx(whole)
        # after three days what is new counts half
        older = rank.blend_parts(best, 2.0, timedelta(days=3), 1.0, factor)
        assert older["recency"] == pytest.approx(parts["recency"] / 2)


def test_a_quoted_phrase_stays_first_whatever_its_age() -> None:
    old = aged(1, 2.0, days=900, session=7)
    old = Scored(candidate=old.candidate, score=8.0, parts={**old.parts, "phrase": 6.0})
    hits = [old, aged(2, 3.0, terms={"a": 1, "b": 1})]
    assert order(blend(hits)) == [1, 2]
    assert order(rank.faded(hits, NOW, 0.95)) == [1, 2]


def test_what_is_alike_gives_way_to_what_is_new() -> None:
    hits = [
        aged(1, 2.0, text="the boiler shows E41"),
        aged(2, 1.9, text="the boiler shows E41 again"),
        aged(3, 1.5, text="call the plumber"),
    ]
    assert order(rank.diverse(hits, 0.7, rank.overlap)) == [1, 3, 2]
    assert order(rank.diverse(hits, 1.0, rank.overlap)) == [1, 2, 3]
    # however little the best says
    weak = [each._replace(score=each.score / 1000) for each in hits]
    assert order(rank.diverse(weak, 0.7, rank.overlap)) == [1, 3, 2]


TALKS = st.lists(
    st.tuples(st.floats(-1, 5), st.floats(0, 900), st.sampled_from(["a b", "a b c", "d", "e f"])), max_size=80
)


@given(TALKS, st.floats(0, 1))
def test_nothing_is_lost_and_parts_add_up(talk: list[tuple[float, float, str]], share: float) -> None:
    hits = [aged(n, score, days=days, text=said) for n, (score, days, said) in enumerate(talk)]
    hits.sort(key=lambda each: -each.score)
    diverse = rank.diverse(hits, share, rank.overlap)
    assert order(diverse)[:1] == order(hits)[:1]
    for found in (blend(hits), rank.faded(hits, NOW, 0.95), diverse):
        assert sorted(order(found)) == sorted(order(hits))
        for each in found:
            # large parts that cancel each other leave their own rounding
            largest = max(1.0, *map(abs, each.parts.values()))
            assert sum(each.parts.values()) == pytest.approx(each.score, abs=1e-9 * largest)
