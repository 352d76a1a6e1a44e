"""Whatever becomes of a chat's messages, in whatever order: its sessions are those of `split`, and keep their ids.

The rules that compute changes run as they are; only the tables are replaced, by a dictionary.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from types import MappingProxyType

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pipeline.ingest import place, session_ranges, sessionize
from pipeline.ingest.session_ranges import Rewrite
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.store.chats.chats import Chat
from pipeline.store.messages.message_rows import Arrival
from pipeline.store.sessions.ranges import SessionShape
from schemas.sessions import Range, Session
from tests.conftest import EPOCH, SESSION_POLICY

CHAT = Chat(
    chat_id="test:1",
    platform="test",
    kind="group",
    title="",
    time_zone="UTC",
    language="en",
    message_count=0,
    lexeme_count=0,
    memory=True,
)
NAMED = "order-12"
KEYS = ("", " thread:7", NAMED)
GAPS = (30, 10, 40)
TICKS = 32

HISTORIES = st.binary(max_size=72)
"""Three bytes are a step of a history: they are drawn in no time, and shrink well."""
THOUSANDS = hypothesis_settings(max_examples=25 * hypothesis_settings.default.max_examples)  # type: ignore[attr-defined]
"""20,000 with `--hypothesis-profile=nightly`."""


def with_gaps(minutes: int) -> SessionPolicy:
    gap = timedelta(minutes=minutes)
    # an agent's sessions may pause a little longer
    return replace(SESSION_POLICY, gap=gap, ttl=gap + timedelta(minutes=10))


def at(tick: int) -> datetime:
    """Times 10 minutes apart, each with another a second later: pauses of just a gap, and of a bit more."""
    return EPOCH + timedelta(minutes=10 * (tick // 2), seconds=tick % 2)


@dataclass(frozen=True)
class Kept:
    """A session as it is stored."""

    id: int
    session_key: str
    shape: SessionShape
    revision: int = 1

    @cached_property
    def session(self) -> Session:
        return Session(
            id=self.id,
            chat_id=CHAT.chat_id,
            session_key=self.session_key,
            started_at=self.shape.started_at,
            ended_at=self.shape.ended_at,
            message_count=self.shape.message_count,
            participants=tuple(self.shape.participants),
            status="open",
            revision=self.revision,
        )


Contents = dict[int, frozenset[tuple[int, datetime]]]


@dataclass
class History:
    """A chat's messages and sessions, and what may happen to them."""

    policy: SessionPolicy = field(default_factory=lambda: with_gaps(GAPS[0]))
    said: dict[int, Arrival] = field(default_factory=dict)
    # handed over, and in no session yet
    waiting: set[int] = field(default_factory=set)
    closes: dict[str, list[datetime]] = field(default_factory=lambda: {key: [] for key in KEYS})
    live: dict[int, Kept] = field(default_factory=dict)
    sessions_made: int = 0
    messages_made: int = 0

    # what happens

    def hand_over(self, key: str, when: datetime) -> None:
        self.messages_made += 1
        number = self.messages_made
        self.said[number] = Arrival(
            message_id=number,
            chat_id=CHAT.chat_id,
            priority=0,
            session_key=key,
            sent_at=when,
            speaker=("Ann", "Bob", "Cy")[number % 3],
            token_count=number,
            lexeme_count=1,
            role="user",
            text="",
        )
        self.waiting.add(number)

    def close(self, when: datetime) -> None:
        """The agent's session ends with this message."""
        self.hand_over(NAMED, when)
        self.closes[NAMED] = sorted({*self.closes[NAMED], when})

    def place(self) -> None:
        """Messages join sessions, and markers cut them; the lowest id survives, the earliest part keeps it."""
        before = self.contents()
        self._arrive(sorted(self.waiting))
        joined = self.contents()
        for session_id, contents in joined.items():
            came_from = {old for old in before if before[old] & contents}
            assert session_id == min(came_from) if came_from else session_id not in before
        cut = [
            kept.session
            for kept in self.live.values()
            if sessionize.cut_by(self.closes[kept.session_key], kept.shape.started_at, kept.shape.ended_at)
        ]
        for session in cut:
            assert self._split(session)
        self.assert_earliest_parts_keep_ids(joined)

    def delete(self, number: int) -> None:
        before = self.contents()
        message = self.said.pop(number)
        if number in self.waiting:
            self.waiting.remove(number)
            return
        (session,) = [kept.session for kept in self.live.values() if holds(kept, message)]
        if not self._split(session):
            del self.live[session.id]
        self.assert_earliest_parts_keep_ids(before)

    def move(self, number: int, when: datetime) -> None:
        """An import has read another time: the message leaves its session, and is placed like a new one."""
        message = self.said[number]
        self.said[number] = message._replace(sent_at=when)
        if number in self.waiting:
            return
        (session,) = [kept.session for kept in self.live.values() if holds(kept, message)]
        self.waiting.add(number)
        if not self._split(session):
            del self.live[session.id]
        self._arrive([number])

    def change_gaps(self, gap: int) -> None:
        before, former = self.contents(), self.policy.gap
        self.policy = with_gaps(gap)
        rewrite = Rewrite()
        for key in KEYS:
            rows = self.rows(key)
            stored, times = sessionize.after_pruned(self.stored(key), [row[0] for row in rows])
            if parts := sessionize.split(times, self.policy.gap_of(key), self.closes[key]):
                self._add_differences(rewrite, key, sessionize.match(stored, parts), rows)
        self._write(rewrite)
        if self.policy.gap < former:
            self.assert_earliest_parts_keep_ids(before)
        for session_id, contents in self.contents().items():
            if self.policy.gap > former and any(before[old] & contents for old in before):
                assert session_id == min(old for old in before if before[old] & contents)

    def prune(self, until: datetime) -> None:
        """Retention removes the oldest messages; what their sessions tell of them stays."""
        self.said = {number: message for number, message in self.said.items() if message.sent_at >= until}

    # what is stored

    def _arrive(self, numbers: Sequence[int]) -> None:
        rewrite = Rewrite()
        for key in KEYS:
            group = [self.said[number] for number in numbers if self.said[number].session_key == key]
            gap = self.policy.gap_of(key)
            stretches = sessionize.windows((message.sent_at for message in group), gap)
            near = [
                session
                for session in self.stored(key)
                if any(session.started_at <= end and session.ended_at >= start for start, end in stretches)
            ]
            if group:
                place._add_changes(rewrite, CHAT, group, near, self.closes[key], self.policy)
        self.waiting -= set(numbers)
        self._write(rewrite)

    def _split(self, session: Session) -> bool:
        key = session.session_key
        rows = [row for row in self.rows(key) if session.started_at <= row[0] <= session.ended_at]
        parts = sessionize.split((row[0] for row in rows), self.policy.gap_of(key), self.closes[key])
        if parts:
            rewrite = Rewrite()
            self._add_differences(rewrite, key, sessionize.match([session], parts), rows)
            self._write(rewrite)
        return bool(parts)

    def _add_differences(
        self,
        rewrite: Rewrite,
        key: str,
        matches: Sequence[sessionize.Match],
        rows: Sequence[tuple[datetime, str, int]],
    ) -> None:
        session_ranges._add_differences(rewrite, (CHAT.chat_id, key), CHAT.language, matches, rows)

    def _write(self, rewrite: Rewrite) -> None:
        """Change what is stored as `Rewrite.write` does."""
        for survivor, losers in rewrite.joined.items():
            gone = [self.live.pop(loser).shape for loser in losers]
            if survivor in rewrite.grown:
                rewrite.grown[survivor] = with_more(rewrite.grown[survivor], gone)
        for session_id, shape in rewrite.cut.items():
            self._revise(session_id, shape)
        for session_id, shape in rewrite.grown.items():
            self._revise(session_id, with_more(shape, [self.live[session_id].shape]))
        for begun in sorted(rewrite.begun, key=lambda begun: (begun.session_key, begun.shape.started_at)):
            self.sessions_made += 1
            kept = Kept(self.sessions_made, begun.session_key, begun.shape)
            self.live[kept.id] = kept

    def _revise(self, session_id: int, shape: SessionShape) -> None:
        kept = self.live[session_id]
        self.live[session_id] = replace(kept, shape=shape, revision=kept.revision + 1)

    # what must be so

    def rows(self, key: str) -> list[tuple[datetime, str, int]]:
        return [(m.sent_at, m.speaker, m.token_count) for m in self.placed(key)]

    def placed(self, key: str) -> list[Arrival]:
        mine = [m for m in self.said.values() if m.session_key == key and m.message_id not in self.waiting]
        return sorted(mine, key=lambda message: message.sent_at)

    def stored(self, key: str) -> list[Session]:
        mine = [kept.session for kept in self.live.values() if kept.session_key == key]
        return sorted(mine, key=lambda session: session.started_at)

    def contents(self) -> Contents:
        found: dict[int, list[tuple[int, datetime]]] = {session_id: [] for session_id in self.live}
        for key in KEYS:
            sessions = iter(self.stored(key))
            session = next(sessions, None)
            for message in self.placed(key):
                while session and message.sent_at > session.ended_at:
                    session = next(sessions, None)
                if session and message.sent_at >= session.started_at:
                    found[session.id].append((message.message_id, message.sent_at))
        return {session_id: frozenset(messages) for session_id, messages in found.items()}

    def assert_earliest_parts_keep_ids(self, before: Contents) -> None:
        now = self.contents()
        for session_id, contents in before.items():
            parts = [part for part in now if now[part] & contents]
            if parts:
                assert min(parts, key=lambda part: self.live[part].shape.started_at) == session_id
                assert all(part == session_id or part not in before for part in parts)

    def assert_as_split(self, stay: Mapping[int, Kept] = MappingProxyType({})) -> None:
        """But for those that `stay`, and what they hold, sessions are those of `split`."""
        for key in KEYS:
            until = max(
                (kept.shape.ended_at for kept in stay.values() if kept.session_key == key), default=EPOCH
            )
            rows = [row for row in self.rows(key) if row[0] > until or not stay]
            parts = sessionize.split((row[0] for row in rows), self.policy.gap_of(key), self.closes[key])
            shapes = [shape_of(part, rows) for part in parts]
            assert [self.live[s.id].shape for s in self.stored(key) if s.id not in stay] == shapes


def holds(kept: Kept, message: Arrival) -> bool:
    return (
        kept.session_key == message.session_key
        and kept.shape.started_at <= message.sent_at <= kept.shape.ended_at
    )


def shape_of(part: Range, rows: Sequence[tuple[datetime, str, int]] = ()) -> SessionShape:
    inside = [row for row in rows if part.started_at <= row[0] <= part.ended_at]
    return SessionShape(
        started_at=part.started_at,
        ended_at=part.ended_at,
        message_count=part.count,
        token_count=sum(tokens for _, _, tokens in inside),
        participants=sorted({speaker for _, speaker, _ in inside}),
    )


def with_more(shape: SessionShape, others: Sequence[SessionShape]) -> SessionShape:
    return replace(
        shape,
        message_count=shape.message_count + sum(other.message_count for other in others),
        token_count=shape.token_count + sum(other.token_count for other in others),
    )


def told(steps: bytes) -> Iterator[History]:
    """The history after each of its steps that may change sessions, and once all messages have their place."""
    history = History()
    for kind, which, tick in zip(*[iter(steps)] * 3, strict=False):
        numbers = sorted(history.said)
        some = numbers[which % len(numbers)] if numbers else 0
        match kind % 16:
            case 0 | 1 | 2 | 3 | 4 | 5 | 6:
                history.hand_over(KEYS[max(0, which % 6 - 3)], at(tick % TICKS))
                continue
            case 7:
                history.close(at(tick % TICKS))
                continue
            case 11 | 12 if some:
                history.delete(some)
            case 13 | 14 if some and history.said[some].sent_at != at(tick % TICKS):
                history.move(some, at(tick % TICKS))
            case 15:
                history.change_gaps(GAPS[which % 3])
            case _:
                history.place()
        yield history
    history.place()
    yield history


@given(HISTORIES)
@THOUSANDS
def test_after_any_history_sessions_are_those_of_all_messages_and_revised_if_and_only_if_they_changed(
    steps: bytes,
) -> None:
    contents: Contents = {}
    revisions: dict[int, int] = {}
    for history in told(steps):
        former, contents = contents, history.contents()
        for session_id in former.keys() & contents.keys():
            is_revised = history.live[session_id].revision != revisions[session_id]
            assert is_revised == (contents[session_id] != former[session_id])
        revisions = {kept.id: kept.revision for kept in history.live.values()}
    history.assert_as_split()


@given(st.binary(max_size=16), st.integers(0, TICKS), st.lists(st.sampled_from(GAPS), min_size=2, max_size=4))
@THOUSANDS
def test_sessions_that_have_lost_messages_to_retention_stay_and_the_others_are_split_again(
    ticks: bytes, pruned: int, gaps: list[int]
) -> None:
    history = History()
    for tick in ticks:
        history.hand_over("", at(tick % TICKS))
    history.place()
    history.change_gaps(gaps[0])
    history.prune(at(pruned))
    left = history.contents()
    stay = {i: kept for i, kept in history.live.items() if kept.shape.message_count > len(left[i])}
    for gap in gaps[1:]:
        history.change_gaps(gap)
        assert {session_id: history.live[session_id] for session_id in stay} == stay
        history.assert_as_split(stay)


TIMES = st.binary(max_size=16).map(lambda ticks: [at(tick % TICKS) for tick in ticks])


@given(TIMES, TIMES, TIMES)
@THOUSANDS
def test_two_chats_that_become_one_have_the_sessions_of_all_their_messages(
    one: list[datetime], other: list[datetime], closes: list[datetime]
) -> None:
    gap, marks = timedelta(minutes=GAPS[0]), sorted(set(closes))
    # Given the sessions of each, of which one chat was closed at times
    stored = [
        Kept(number, NAMED, shape_of(part)).session
        for number, part in enumerate([*sessionize.split(one, gap, marks), *sessionize.split(other, gap)])
    ]
    # When those that are near each other are joined, and split where a marker lies in them
    parts = []
    for group in sessionize.joined(stored, gap, marks):
        start, end = min(s.started_at for s in group), max(s.ended_at for s in group)
        inside = [time for time in [*one, *other] if start <= time <= end]
        assert len(inside) == sum(session.message_count for session in group)
        is_cut = sessionize.cut_by(marks, start, end)
        parts += sessionize.split(inside, gap, marks) if is_cut else sessionize.split(inside, timedelta.max)
    # Then they are those of all messages
    assert parts == sessionize.split([*one, *other], gap, marks)
