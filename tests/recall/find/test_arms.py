"""What each arm finds that no other would, in a chat of 600 messages: a bot's author relies on the answer alone."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from pipeline.ingest import accept
from pipeline.recall import search
from pipeline.recall.find.arms import AMONG_PEOPLE, limits_of
from pipeline.store.connections.database import Database
from pipeline.store.search.chat_snapshot import Shared
from schemas.context import Context, Hit
from schemas.messages import ChatIn, MessageIn
from schemas.search import SearchQuery
from schemas.settings import Settings
from tests.conftest import EPOCH, TENANT, Templates, message
from tests.harness.contexts import DAY
from tests.harness.pipeline import place, rows, run, summarizer
from tests.recall import asking
from tests.recall.found import requested

CHAT = ChatIn(chat_id="test:port", title="The port", time_zone="UTC", language="english")
DAYS, A_DAY, QUIET = 101, 6, 40
PEOPLE = ["Ann", "Bob", "Cy"]


def said(day: int, minute: float, content: str, id: str, name: str = "Ann", **fields: object) -> MessageIn:  # noqa: A002
    return message(day * DAY + minute, content, id=id, sender_name=name, sender_id=f"test:{name}", **fields)


def usual() -> list[MessageIn]:
    """Messages of a hundred days, six a day, all about ferries."""
    return [
        said(
            day,
            minute,
            f"the ferry number {31 * day + minute} leaves pier {minute % 7} with cargo {day % 13}",
            f"f{day}-{minute}",
            PEOPLE[minute % 3],
        )
        for day in range(DAYS)
        if day != QUIET
        for minute in range(A_DAY)
    ]


def special() -> list[MessageIn]:
    """What is asked for, a little each, among the talk of every day."""
    return [
        said(QUIET, 100, "lunch was soup", "soup", "Bob"),
        said(50, 100, "Olek is allergic to nuts", "nuts", "Cy"),
        said(51, 100, "i like the pie", "pie", "Olek"),
        said(60, 100, "who can lend a ladder for the lighthouse?", "ladder", "Ann"),
        said(80, 100, "mine is in the shed", "shed", "Bob", reply_to="ladder"),
        said(70, 100, "the doctor was late", "doctor", "Dana"),
        said(DAYS - 1, 100, "all quiet here", "quiet", "Bob"),
        said(30, 100, "@harbourbot who has the diving bell now?", "asked", "Dana"),
        said(31, 100, "the diving bell is in the shed", "bell", "Bob"),
        said(20, 300, "does anyone have a spare bicycle", "bicycle", "Dana"),
        said(20, 301, "for the regatta on Sunday", "regatta", "Dana"),
        *(said(20, 302 + n, f"hm {n}", f"hm{n}", "Bob") for n in range(4)),
        said(20, 310, "take mine", "mine", "Ann"),
        *(said(42 + n, 300, f"a bicycle again, number {n}", f"bicycle{n}", "Bob") for n in range(18)),
        *(said(82 + n, 300, f"a regatta again, number {n}", f"regatta{n}", "Bob") for n in range(18)),
    ]


def fill(database: Database) -> None:
    accept.accept(database, TENANT, CHAT, [*usual(), *special()])
    place(database)
    run(database, "summarize", summarizer(database))


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("port", fill)


ask = partial(asking.ask, chat_id=CHAT.chat_id, embedder=None, explain=True, include_history=False)


def messages(found: Context) -> Sequence[Hit]:
    return found.explain.messages


def hit(found: Context, external_id: str) -> Hit:
    return next(one for one in messages(found) if one.external_id == external_id)


def test_the_larger_a_chat_the_more_of_its_sessions_are_looked_into() -> None:
    sizes = (399, 400, 4_999, 5_000, 19_999, 20_000)
    limits = [limits_of(requested("where is the key?", messages=size)) for size in sizes]
    assert [each.sessions.looked_into for each in limits] == [8, 8, 8, 12, 12, 16]
    # nearly all of a small one is ranked
    assert limits[0].best > limits[-1].best > limits[1].best
    # less of a large one by anybody, if the asker has people there
    people = {"Ana": Shared(5, 5), "Ben": Shared(20, 5)}
    for request, are_close in ((requested("?", messages=size), size == 20_000) for size in sizes):
        known = replace(request.snapshot, people=people, sessions=80, asker="Ana")
        assert (limits_of(replace(request, snapshot=known)) is AMONG_PEOPLE) is are_close


def test_a_day_that_is_named_is_found_by_its_day(database: Database, settings: Settings) -> None:
    day = EPOCH + timedelta(days=QUIET)
    found = ask(database, settings, f"what happened on {day:%-d %B %Y}?")
    assert "times" in hit(found, "soup").arms
    assert hit(found, "soup").components["date"] > 0
    assert hit(found, "soup").rank == 1


def test_what_somebody_said_in_a_month_is_found(database: Database, settings: Settings) -> None:
    # Given a month with 180 messages about ferries, and one of Dana's about something else
    month = EPOCH + timedelta(days=70)
    found = ask(database, settings, f"what did Dana say about the ferry in {month:%B %Y}?")
    assert "times" in hit(found, "doctor").arms
    assert hit(found, "doctor").rank <= 5


def test_what_mentions_somebody_is_found_by_their_name(database: Database, settings: Settings) -> None:
    found = ask(database, settings, "what about Olek?")
    assert "named" in hit(found, "nuts").arms
    assert hit(found, "nuts").rank == 1
    assert hit(found, "nuts").components["named"] > 0


def test_a_reply_far_from_its_question_is_found_with_it(database: Database, settings: Settings) -> None:
    found = ask(database, settings, "who lends a ladder for the lighthouse?")
    reply = hit(found, "shed")
    assert not reply.arms
    assert reply.components["answers"] > 0
    assert reply.rank <= 2


def test_what_a_bot_was_asked_before_is_found_by_a_search_and_never_told_as_an_answer(
    database: Database, settings: Settings
) -> None:
    question = "where is the diving bell?"
    assert "bell" in ask(database, settings, question).text
    assert "harbourbot" not in ask(database, settings, question).text
    query = SearchQuery(chat_id=CHAT.chat_id, query=question)
    found = search(database, TENANT, query, embedder=None, settings=settings)
    assert {"asked", "bell"} <= {one.external_id for one in found.hits}


def test_what_only_a_summary_names_is_found_through_it(database: Database, settings: Settings) -> None:
    # Given a day whose summary says where they ate, as a model writes it, and its messages do not
    asked = "what did they have in the canteen?"
    assert "soup" not in {one.external_id for one in messages(ask(database, settings, asked))}
    with database.tenant(TENANT) as connection:
        changed = connection.exec_driver_sql(
            "UPDATE conversation_sessions s SET summary_model = 'gpt-4.1-mini', summary_text = 'Lunch in the canteen.',"
            " search_text = 'Lunch in the canteen.' FROM messages m WHERE m.external_id = 'soup'"
            " AND m.sent_at BETWEEN s.started_at AND s.ended_at"
        )
    assert changed.rowcount == 1
    found = hit(ask(database, settings, asked), "soup")
    assert set(found.arms) == {"sessions"}


def test_what_several_messages_say_leads_to_their_session(database: Database, settings: Settings) -> None:
    # Given two words that are said again and again, and both in one session only, which has no summary yet
    rows(
        database,
        "UPDATE conversation_sessions s SET summary_text = NULL, search_text = '' FROM messages m "
        "WHERE m.external_id = 'mine' AND m.sent_at BETWEEN s.started_at AND s.ended_at",
    )
    found = ask(database, settings, "who lent a bicycle for the regatta?")
    assert "sessions" in hit(found, "mine").arms
