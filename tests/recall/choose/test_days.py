"""The day and the time under which a context shows what was found."""

from datetime import UTC, datetime, timedelta

from tests.recall.found import assembled, hit, session


def exchanges(*args: object, **fields: object) -> list[str]:
    """Return what the block of messages shows between its tags."""
    found = assembled(*args, **fields)  # type: ignore[arg-type]
    (block,) = [block for block in found.blocks if block.kind == "exchanges"]
    return block.text.split("\n")[2:-1]


def test_what_was_said_after_midnight_is_under_the_day_on_the_chats_clock_on_which_it_was_said() -> None:
    # Given a party in Berlin that goes on after midnight, where a day begins at 23:00 in UTC
    began = datetime(2026, 11, 5, 22, 40, tzinfo=UTC)
    talk = [
        hit(1, "party is great", 1.0, sent_at=began),
        hit(2, "who is still here", 0.5, sent_at=began + timedelta(minutes=15)),
        hit(3, "all of us", 1.5, sent_at=began + timedelta(minutes=35)),
        hit(4, "the van comes tomorrow at 9", 3.0, sent_at=began + timedelta(minutes=55), speaker="Ben"),
    ]
    # Then a reader knows which day is the one after it
    assert exchanges("when does the van come?", talk, time_zone="Europe/Berlin") == [
        "5 November 2026, 23:40",
        "Ann: party is great",
        "Ann: who is still here",
        "6 November 2026, 00:15",
        "Ann: all of us",
        "Ben: the van comes tomorrow at 9",
    ]
    # and the time is that of the talk, also where its first messages are not shown
    alone = exchanges("when does the van come?", talk, time_zone="Europe/Berlin", messages=1, neighbours=0)
    assert alone == ["6 November 2026, 00:15", "Ben: the van comes tomorrow at 9"]


def test_a_talk_that_goes_on_for_days_has_a_heading_for_each_of_them() -> None:
    # Given a session of which only messages in the middle were found
    began = datetime(2026, 11, 2, 7, 0, tzinfo=UTC)
    one = session(1, "deploying", 1.0, started_at=began, ended_at=began + timedelta(days=3))
    talk = [
        hit(1, "deploying", 1.0, sent_at=began + timedelta(hours=5)),
        hit(2, "the audit is today at 16:00", 3.0, sent_at=began + timedelta(hours=50)),
        hit(3, "room Berlin", 2.0, sent_at=began + timedelta(hours=51)),
    ]
    assert exchanges("when is the audit?", talk, sessions=[one]) == [
        "2 November 2026, 07:00",
        "Ann: deploying",
        "4 November 2026, 09:00",
        "Ann: the audit is today at 16:00",
        "Ann: room Berlin",
    ]
