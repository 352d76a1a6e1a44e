"""Whom an asker talks with: more often than chance would have it."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.ask.affinity import FULL_LIFT, affinities
from pipeline.store.search.prelude import Shared

PEOPLE = "Ana Ben Cy Dora Eve".split()
SESSIONS = st.lists(st.sets(st.sampled_from(PEOPLE), min_size=1), min_size=1, max_size=30)


def of(sessions: list[set[str]], asker: str | None) -> dict[str, float]:
    people = {
        name: Shared(
            sum(name in each for each in sessions), sum(name in each and asker in each for each in sessions)
        )
        for name in sorted(set(chain.from_iterable(sessions)))
    }
    return affinities(people, len(sessions), asker)


def test_who_is_with_the_asker_so_many_times_as_often_as_by_chance_counts_in_full() -> None:
    times = round(FULL_LIFT)
    found = of([*[{"Ana", "Ben"}] * 10, *[{"Eve"}] * (10 * times - 10)], "Ana")
    assert found == {"Ana": pytest.approx(1.0), "Ben": pytest.approx(1.0)}


def test_in_a_direct_chat_and_for_a_stranger_there_is_none() -> None:
    assert of([{"Ana", "Ben"}] * 5, "Ana") == {}
    assert of([{"Ana", "Ben"}] * 5, "Zoe") == {}
    assert of([{"Ana", "Ben"}] * 5, None) == {}
    assert affinities({}, 0, "Ana") == {}


@given(SESSIONS, st.sampled_from(PEOPLE))
def test_nobody_counts_more_than_the_asker_or_without_a_session_with_them(
    sessions: list[set[str]], asker: str
) -> None:
    found = of(sessions, asker)
    together = set(chain.from_iterable(each for each in sessions if asker in each))
    assert found.keys() <= together
    assert all(0 <= value <= found.get(asker, 0.0) + 1e-6 for value in found.values())


@given(SESSIONS, st.sampled_from(PEOPLE))
def test_sessions_of_others_only_raise_what_the_asker_has_to_do_with_theirs(
    sessions: list[set[str]], asker: str
) -> None:
    before, after = of(sessions, asker), of([*sessions, {"somebody else"}], asker)
    assert all(after[name] >= value for name, value in before.items())
