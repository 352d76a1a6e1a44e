"""People of one name are told apart by chat, until somebody links them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pipeline.ingest import history
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.platforms.identity import sender_by_name
from pipeline.platforms.records import ImportOptions
from pipeline.platforms.whatsapp import whatsapp_export as whatsapp
from pipeline.store.connections.database import Database
from tests.commands.conftest import Run
from tests.conftest import TENANT
from tests.harness.pipeline import rows

ONE, TWO = "whatsapp:Семья", "whatsapp:工作群"


def said(name: str, *texts: str) -> list[str]:
    return [f"13/01/24, 10:{minute:02d} - {name}: {text}" for minute, text in enumerate(texts)]


def records(chat: str, lines: list[str]) -> list[Any]:
    return list(whatsapp.parse(lines, ImportOptions(chat_id=chat, time_zone="Asia/Tokyo", date_order="dmy")))


Import = Callable[..., int]


@pytest.fixture
def imported(database: Database, rules: SessionPolicy) -> Import:
    """Import an export as a chat."""

    def store(chat: str, lines: list[str]) -> int:
        events = history.store(database, TENANT, records(chat, lines), rules, settle=timedelta(0))
        return sum(event.new for event in events if isinstance(event, history.Stored))

    return store


def senders(database: Database) -> list[tuple[object, ...]]:
    return rows(database, "SELECT chat_id, sender_id, count(*) FROM messages GROUP BY 1, 2 ORDER BY 1, 2")


def exported(run: Run, who: str) -> str:
    return run("export", "user", who).out


def test_people_of_one_name_in_two_exports_are_two_until_they_are_linked(
    run: Run, database: Database, imported: Import
) -> None:
    name = "Zoë/🦊 50%"
    imported(ONE, said(name, "мой код 17"))
    imported(TWO, said(name, "我的代码是 42"))
    one, two = (sender_by_name("whatsapp", chat, name) for chat in (ONE, TWO))
    run("memories", "add", "любит чай", "--user", one, "--chat", ONE)
    assert run("users", "show", two, "--json").json["current"] == []
    assert ("мой код" in exported(run, one), "любит чай" in exported(run, one)) == (True, True)
    assert ("мой код" in exported(run, two), "代码" in exported(run, two)) == (False, True)
    assert run("users", "link", two, one).code == 0
    assert [each["content"] for each in run("users", "show", two, "--json").json["current"]] == ["любит чай"]
    assert ("мой код" in exported(run, two), "代码" in exported(run, one)) == (True, True)
    assert run("users", "unlink", two).code == 0
    assert run("forget", "user", one, "--yes").code == 0
    assert senders(database) == [(TWO, two, 1)]
    assert imported(ONE, said(name, "мой код 17")) == 0


def test_a_person_known_by_name_stays_one_when_the_chat_gets_another_id(
    run: Run, database: Database, imported: Import
) -> None:
    new = "whatsapp:Семья и друзья"
    imported(ONE, [*said("Оля", "раз"), *said("Łukasz", "sekret")])
    run("forget", "user", sender_by_name("whatsapp", ONE, "Łukasz"), "--yes")
    assert run("chats", "rename", ONE, new, "--yes").code == 0
    assert imported(ONE, said("Оля", "раз", "два")) == 1
    # under the new title it is another chat's file: what it has in common with the old one has other ids there
    imported(new, [f"14/01/24, 10:00 - {who}: три" for who in ("Оля", "Łukasz")])
    person = run("users", "show", sender_by_name("whatsapp", new, "Оля"), "--json").json
    assert person["senders"] == [sender_by_name("whatsapp", ONE, "Оля")]
    assert exported(run, person["user_id"]).count('"record":"message"') == 3
    assert "Łukasz" not in str(rows(database, "SELECT sender_name FROM messages"))
