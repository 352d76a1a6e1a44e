"""What is believed does not depend on the order in which it was said to us, and a later word wins over an earlier."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from pipeline.memories.beliefs import Believed, Statement, believed

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)


def lives(
    day: int, place: str, *, chat: str = "g", session: int | None = None, memory: UUID | None = None
) -> Statement:
    return Statement(
        memory_id=memory,
        session_id=day if session is None else session,
        chat_id=chat,
        said_at=JANUARY + timedelta(days=day),
        content=f"Ann lives in {place.title()}.",
        attribute="home",
        value=place,
    )


def test_who_is_not_in_one_place_is_still_where_they_said() -> None:
    found = history(believed([lives(1, "lisbon"), lives(2, "porto"), denies(3, "lisbon")]))
    assert dict(found) == {
        "Ann lives in Lisbon.": ["Ann lives in Porto.", "Ann does not live in Lisbon."],
        "Ann lives in Porto.": [],
        "Ann does not live in Lisbon.": [],
    }
    # but who is not there any more is not there
    assert dict(history(believed([lives(1, "porto"), denies(2, "porto")])))["Ann lives in Porto."] != []


def denies(day: int, place: str) -> Statement:
    said = lives(day, place)
    return replace(said, content=f"Ann does not live in {place.title()}.", value=f"not {place}")


def says(day: int, content: str, *, chat: str = "g", by_hand: UUID | None = None) -> Statement:
    return Statement(
        memory_id=by_hand,
        session_id=None if by_hand else day,
        chat_id=chat,
        said_at=JANUARY + timedelta(days=day),
        content=content,
    )


def history(found: list[Believed]) -> list[tuple[str, list[str]]]:
    """Each memory's words with those of the memories that supersede it."""
    return [
        (each.statements[0].content, [found[by].statements[0].content for by in each.superseded_by])
        for each in found
    ]


def test_what_is_said_in_two_chats_is_a_memory_of_each() -> None:
    assert len(believed([says(0, "Ann moved to Porto."), says(1, "Ann moved to Porto.", chat="d")])) == 2
    assert len(believed([lives(0, "porto"), lives(1, "porto", chat="d"), lives(2, "porto")])) == 2
    # what is written by hand for every chat takes in nothing that one of them says
    by_hand = replace(says(3, "Ann moved to Porto.", by_hand=UUID(int=7)), chat_id=None)
    assert len(believed([says(0, "Ann moved to Porto."), by_hand])) == 2


def test_what_is_written_by_hand_stays_itself_and_takes_in_what_repeats_it() -> None:
    hand = UUID(int=7)
    found = believed(
        [says(3, "Ann is allergic to nuts.", chat="g", by_hand=hand), says(0, "Ann is allergic to nuts!")]
    )
    assert [(each.memory_id, len(each.statements)) for each in found] == [(hand, 2)]


def test_what_was_retracted_is_believed_again_only_when_it_is_said_again() -> None:
    wrong = UUID(int=1)
    before, after = lives(0, "porto", memory=wrong), lives(9, "porto")
    found = believed([before, lives(2, "porto"), after], {wrong: JANUARY + timedelta(days=5)})
    assert [(each.memory_id, len(each.statements)) for each in found] == [(wrong, 2), (None, 1)]


statements = st.lists(
    st.builds(
        lives,
        st.integers(0, 50),
        st.sampled_from(["porto", "lisbon", "faro"]),
        chat=st.sampled_from(["g", "d"]),
        session=st.integers(1, 10**6),
    ),
    max_size=12,
    unique_by=(lambda each: each.said_at, lambda each: each.session_id),
)


@given(statements, st.randoms())
def test_the_order_of_arrival_changes_nothing(said: list[Statement], random: object) -> None:
    shuffled = list(said)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert believed(shuffled) == believed(said)


@given(statements)
def test_every_statement_is_in_one_memory_and_the_last_is_believed(said: list[Statement]) -> None:
    found = believed(said)
    assert sorted(s.session_id or 0 for each in found for s in each.statements) == sorted(
        s.session_id or 0 for s in said
    )
    current = {each.statements[0].value for each in found if not each.superseded_by}
    last = max(said, key=lambda each: each.said_at, default=None)
    assert current == ({last.value} if last else set())
    # as many changes of mind as there are in what was said
    changes = sum(1 for _ in groupby(sorted(said, key=lambda s: s.said_at), key=lambda s: s.value))
    in_order = sorted(found, key=lambda each: each.statements[0].said_at)
    assert len(found) >= changes
    assert all(one.statements[0].said_at <= other.statements[0].said_at for one, other in pairwise(in_order))
