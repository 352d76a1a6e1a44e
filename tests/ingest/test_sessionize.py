"""The pure cutting of sessions: what a session is, whatever the order."""

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest import sessionize
from schemas.sessions import Range, Session

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GAP = timedelta(minutes=30)
minutes = st.integers(0, 600)


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


def session(id: int, start: float, end: float) -> Session:  # noqa: A002
    return Session(
        id=id,
        chat_id="c",
        session_key="",
        started_at=at(start),
        ended_at=at(end),
        message_count=1,
        participants=(),
        status="open",
        revision=1,
    )


def test_a_pause_of_exactly_the_gap_stays_in_the_session() -> None:
    assert [r.count for r in sessionize.split([at(0), at(30), at(60.001)], GAP)] == [2, 1]


def test_a_close_marker_ends_the_session_after_its_own_message() -> None:
    ranges = sessionize.split([at(0), at(5), at(6)], GAP, [at(5)])
    assert [r.count for r in ranges] == [2, 1]


@given(st.lists(minutes, max_size=40), st.lists(minutes, max_size=3))
def test_every_message_lies_in_one_range_and_ranges_are_apart(times: list[int], closes: list[int]) -> None:
    marks = sorted({at(m) for m in closes})
    ranges = sessionize.split(map(at, times), GAP, marks)
    assert sum(r.count for r in ranges) == len(times)
    for earlier, later in itertools.pairwise(ranges):
        marked = any(earlier.ended_at <= mark < later.started_at for mark in marks)
        assert later.started_at - earlier.ended_at > GAP or marked


@given(
    st.lists(minutes, min_size=1, max_size=30), st.lists(minutes, max_size=20), st.sets(minutes, max_size=3)
)
def test_placing_gives_what_cutting_all_gives(stored: list[int], new: list[int], closes: set[int]) -> None:
    marks = sorted(map(at, closes))
    ranges = sessionize.split(map(at, stored), GAP, marks)
    sessions = [
        Session(**{**session(i, 0, 0).__dict__, "started_at": r.started_at, "ended_at": r.ended_at})
        for i, r in enumerate(ranges)
    ]
    placed = sessionize.place(sessions, [at(m) for m in new], GAP, marks)
    kept = [s for s in sessions if not any(s in p.sessions for p in placed)]
    found = sorted([(p.started_at, p.ended_at) for p in placed] + [(s.started_at, s.ended_at) for s in kept])
    everything = [at(m) for m in (*stored, *new)]
    assert found == [(r.started_at, r.ended_at) for r in sessionize.split(everything, GAP, marks)]
    assert sorted(i for p in placed for i in p.arrivals) == list(range(len(new)))


def part(start: float, end: float) -> Range:
    return Range(started_at=at(start), ended_at=at(end), count=1)


def test_with_a_longer_gap_the_lowest_id_survives_the_join() -> None:
    [match] = sessionize.match([session(7, 0, 10), session(3, 50, 60)], [part(0, 60)])
    assert match.session.id == 3
    assert [s.id for s in match.merged] == [7]


def test_with_a_shorter_gap_the_earliest_part_keeps_the_id() -> None:
    first, second = sessionize.match([session(7, 0, 60)], [part(0, 10), part(50, 60)])
    assert first.session.id == 7
    assert second.session is None
