"""The day and the time under which a context shows what was found."""

from datetime import UTC, datetime, timedelta

from tests.recall.found import assembled, hit


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
    found = assembled("when does the van come?", talk, time_zone="Europe/Berlin")
    (block,) = [block for block in found.blocks if block.kind == "exchanges"]
    assert block.text.split("\n")[2:-1] == [
        "5 November 2026, 23:40",
        "Ann: party is great",
        "Ann: who is still here",
        "6 November 2026, 00:15",
        "Ann: all of us",
        "Ben: the van comes tomorrow at 9",
    ]
