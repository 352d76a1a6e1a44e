"""Split a chat's messages into sessions by a policy: pure functions of their times, whatever the order of arrival.

A session is a run of consecutive messages with no gap longer than the limit, inclusive. A close marker at time T ends
the session of its key: what was said at T or before belongs to the earlier session, what came after begins a new one.

`split` is the definition. `place` does the same from what is stored: sessions are ranges without inner gaps, so
joining ranges and new points gives what splitting all the messages would give, without reading them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from pipeline.store.chats.chats import Chat
from schemas.kinds import EXTRACT, SUMMARIZE
from schemas.sessions import Range, Session, is_named
from schemas.settings import Settings


@dataclass(frozen=True, kw_only=True)
class SessionPolicy:
    """How sessions are split and when they are summarized."""

    # the longest pause between two messages of a session
    gap: timedelta
    # the same for sessions that an agent named
    ttl: timedelta
    # how long a closed session's summary waits for late messages
    debounce_seconds: float
    # messages or tokens after which an open session is summarized again
    rolling_messages: int
    rolling_tokens: int
    # the same for sessions that an agent named
    named_rolling_messages: int
    summaries: bool
    # whether facts are learned from sessions
    facts: bool
    # off: the chat's messages are kept, and nothing is derived from them
    memory: bool = True

    @classmethod
    def of(cls, settings: Settings) -> "SessionPolicy":
        return cls(
            gap=timedelta(minutes=settings.session_gap_minutes),
            ttl=timedelta(minutes=settings.memory_session_ttl_minutes),
            debounce_seconds=settings.summarize_debounce_seconds,
            rolling_messages=settings.session_rolling_messages,
            rolling_tokens=settings.session_rolling_tokens,
            named_rolling_messages=settings.named_rolling_messages(),
            summaries=settings.switched_off(SUMMARIZE.name) is None,
            facts=settings.switched_off(EXTRACT.name) is None,
        )

    def for_chat(self, chat: Chat) -> "SessionPolicy":
        """Return the policy of one chat, whose memory may be off."""
        return self if chat.memory else replace(self, memory=False)

    def gap_of(self, session_key: str) -> timedelta:
        """Return the longest pause inside a session of this key."""
        return self.ttl if is_named(session_key) else self.gap


def split(times: Iterable[datetime], gap: timedelta, closes: Sequence[datetime] = ()) -> list[Range]:
    """Return the sessions of one chat and session key, earliest first.

    `times` are those of the unique messages, in any order; `closes` the close markers, ascending.

    >>> from datetime import UTC
    >>> at = lambda minute: datetime(2026, 1, 1, 12, minute, tzinfo=UTC)
    >>> [r.count for r in split([at(59), at(0), at(30)], timedelta(minutes=30))]
    [3]
    >>> [r.count for r in split([at(59), at(0), at(30)], timedelta(minutes=29))]
    [1, 2]
    """
    ranges: list[Range] = []
    for at in sorted(times):
        if ranges and _together(ranges[-1].ended_at, at, gap, closes):
            last = ranges[-1]
            ranges[-1] = Range(started_at=last.started_at, ended_at=at, count=last.count + 1)
        else:
            ranges.append(Range(started_at=at, ended_at=at, count=1))
    return ranges


@dataclass(frozen=True, kw_only=True)
class Placement:
    """One session after new messages have found their place in it."""

    started_at: datetime
    ended_at: datetime
    # the stored sessions that it consists of, earliest first; empty: it is new
    sessions: tuple[Session, ...]
    # indexes of the new messages in it
    arrivals: tuple[int, ...]


def place(
    stored: Sequence[Session],
    arrivals: Sequence[datetime],
    gap: timedelta,
    closes: Sequence[datetime] = (),
) -> list[Placement]:
    """Return the sessions that new messages extend, join or begin.

    `stored` holds every session of the chat and key that lies within `gap` of any arrival, as `windows` says;
    `arrivals` are the new messages' times; `closes` the close markers, ascending.
    """
    pieces: list[Piece] = [(s.started_at, s.ended_at, s) for s in stored]
    pieces += [(at, at, index) for index, at in enumerate(arrivals)]
    return [p for group in _apart(pieces, gap) for p in _joined(group, gap, closes) if p.arrivals]


def joined(
    sessions: Sequence[Session], gap: timedelta, closes: Sequence[datetime] = ()
) -> list[tuple[Session, ...]]:
    """Group sessions of two joined chats that become one session; most stay alone.

    `sessions` are some of the one chat and, of the other, all that lie within `gap` of those.
    """
    pieces: list[Piece] = [(s.started_at, s.ended_at, s) for s in sessions]
    return [placement.sessions for placement in _joined(pieces, gap, closes)]


def windows(times: Iterable[datetime], gap: timedelta) -> list[tuple[datetime, datetime]]:
    """Return the disjoint stretches of time within `gap` of any of these times, earliest first.

    >>> at = lambda minute: datetime(2026, 1, 1, 12, minute)
    >>> stretches = windows([at(50), at(10), at(12)], timedelta(minutes=5))
    >>> [(start.minute, end.minute) for start, end in stretches]
    [(5, 17), (45, 55)]
    """
    stretches: list[tuple[datetime, datetime]] = []
    for at in sorted(times):
        if stretches and at - gap <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], at + gap)
        else:
            stretches.append((at - gap, at + gap))
    return stretches


Piece = tuple[datetime, datetime, Session | int]
"""Where a stored session, or an arrival, begins and ends, and which it is: an arrival by its index."""


def _apart(pieces: Iterable[Piece], gap: timedelta) -> list[list[Piece]]:
    """Group the pieces that arrivals connect; sessions between groups are not known, so no groups are joined."""
    groups: list[list[Piece]] = []
    reached: datetime | None = None
    for start, end, piece in sorted(map(partial(_reach, gap), pieces), key=lambda reach: reach[:2]):
        if reached is None or start > reached:
            groups.append([])
        groups[-1].append(piece)
        reached = end if reached is None else max(reached, end)
    return groups


def _reach(gap: timedelta, piece: Piece) -> tuple[datetime, datetime, Piece]:
    start, end, which = piece
    return (start - gap, end + gap, piece) if isinstance(which, int) else (start, end, piece)


def _joined(pieces: Iterable[Piece], gap: timedelta, closes: Sequence[datetime]) -> list[Placement]:
    placements: list[Placement] = []
    for start, end, which in sorted(pieces, key=lambda piece: piece[:2]):
        sessions, indexes = ((), (which,)) if isinstance(which, int) else ((which,), ())
        if placements and _together(placements[-1].ended_at, start, gap, closes):
            last = placements[-1]
            placements[-1] = Placement(
                started_at=last.started_at,
                ended_at=max(last.ended_at, end),
                sessions=last.sessions + sessions,
                arrivals=last.arrivals + indexes,
            )
        else:
            placements.append(Placement(started_at=start, ended_at=end, sessions=sessions, arrivals=indexes))
    return placements


@dataclass(frozen=True, kw_only=True)
class Match:
    """A target range, and the stored sessions that become it."""

    range: Range
    # keeps its id; None: a new session
    session: Session | None
    # stored sessions that go into it
    merged: tuple[Session, ...]


def match(stored: Sequence[Session], parts: Sequence[Range]) -> list[Match]:
    """Match stored sessions to ranges, after the gap has changed or messages have gone.

    A session goes into the last range that begins no later than it, or else the first. Of several in one range the
    lowest id survives; of a session split in parts the earliest keeps the id. `parts` are ascending, not empty.
    """
    into: list[list[Session]] = [[] for _ in parts]
    starts = [part.started_at for part in parts]
    for session in stored:
        into[max(0, bisect_right(starts, session.started_at) - 1)].append(session)
    matches = []
    for part, sessions in zip(parts, into, strict=True):
        survivor = min(sessions, key=lambda s: s.id, default=None)
        merged = tuple(s for s in sessions if s is not survivor)
        matches.append(Match(range=part, session=survivor, merged=merged))
    return matches


def after_pruned(
    stored: Sequence[Session], times: Sequence[datetime]
) -> tuple[list[Session], list[datetime]]:
    """Return `(stored, times)` after the sessions from which retention has removed messages, which stay.

    What they still hold must not be split together with what follows: that would be their messages no more.
    """
    first = min(times, default=None)
    end = max((s.ended_at for s in stored if first is None or s.started_at < first), default=None)
    if end is None:
        return list(stored), list(times)
    return [s for s in stored if s.started_at > end], [at for at in times if at > end]


def cut_by(closes: Sequence[datetime], started_at: datetime, ended_at: datetime) -> bool:
    """Tell whether a close marker lies inside the range, so that it must be split anew.

    >>> at = lambda minute: datetime(2026, 1, 1, 12, minute)
    >>> cut_by([at(30)], at(30), at(40)), cut_by([at(40)], at(30), at(40))
    (True, False)
    """
    first = bisect_left(closes, started_at)
    return first < len(closes) and closes[first] < ended_at


def _together(end: datetime, start: datetime, gap: timedelta, closes: Sequence[datetime]) -> bool:
    """Tell whether a message at `start` continues the session that reaches to `end`."""
    return start - end <= gap and not cut_by(closes, end, start)
