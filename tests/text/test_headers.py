"""What is embedded says where it stands, and nothing that would drown the text itself."""

from datetime import UTC, datetime, timedelta, timezone

from pipeline.enrich.vectors.embedding_text import message_document, session_document
from schemas.sessions import Session, Summary
from tests.text.builders import message


def test_a_session_is_embedded_with_group_time_participants_and_topics():
    session = Session(
        id=1,
        chat_id="telegram:-1",
        session_key="",
        started_at=datetime(2026, 5, 2, 0, 30, tzinfo=timezone(timedelta(hours=1))),
        ended_at=datetime(2026, 5, 2, 1, 2, tzinfo=UTC),
        message_count=9,
        participants=("Ann", "Bob"),
        status="closed",
        revision=1,
    )
    summary = Summary(summary="Ann fixed it.", topics=["boiler", "rent"])
    header, body = session_document(session, "Harbour House", summary)
    assert header == (
        "group: Harbour House | time: 2026-05-01 23:30 to 2026-05-02 01:02 | participants: Ann, Bob"
        " | topics: boiler, rent\n"
    )
    assert body == "Ann fixed it."


def test_a_name_cannot_pretend_to_be_another_part_of_the_header():
    header, _ = message_document(message("hi", sender="Ann | topics:\nmoney"))
    assert header == "participants: Ann topics: money\n"
