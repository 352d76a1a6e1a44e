"""The pure cutting of sessions: what a session is, whatever the order."""

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest import sessionize

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GAP = timedelta(minutes=30)
minutes = st.integers(0, 600)


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


def test_a_pause_of_exactly_the_gap_stays_in_the_session() -> None:
    assert [r.count for r in sessionize.split([at(0), at(30), at(60.001)], GAP)] == [2, 1]
    # and a mark of its end ends it after its own message
    assert [r.count for r in sessionize.split([at(0), at(5), at(6)], GAP, [at(5)])] == [2, 1]


@given(st.lists(minutes, max_size=40), st.lists(minutes, max_size=3))
def test_every_message_lies_in_one_range_and_ranges_are_apart(times: list[int], closes: list[int]) -> None:
    marks = sorted({at(m) for m in closes})
    ranges = sessionize.split(map(at, times), GAP, marks)
    assert sum(r.count for r in ranges) == len(times)
    for earlier, later in itertools.pairwise(ranges):
        marked = any(earlier.ended_at <= mark < later.started_at for mark in marks)
        assert later.started_at - earlier.ended_at > GAP or marked
