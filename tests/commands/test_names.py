"""People of one name are told apart by chat, whatever was imported when, until somebody links them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.ingest import history
from pipeline.ingest.policy import SessionPolicy
from pipeline.platforms.identity import sender_by_name, without_chat
from pipeline.platforms.records import ImportOptions, Record
from pipeline.platforms.whatsapp import export as whatsapp
from pipeline.store.connections.database import Database
from pipeline.store.memories import learned as learned_store
from tests.commands.conftest import Run, Workers
from tests.commands.test_doctor import found
from tests.conftest import TENANT
from tests.memories.learned import learned
from tests.tables import OF_TENANTS
from tests.test_pipeline import rows

ONE, TWO = "whatsapp:Семья", "whatsapp:工作群"


def said(name: str, *texts: str) -> list[str]:
    return [f"13/01/24, 10:{minute:02d} - {name}: {text}" for minute, text in enumerate(texts)]


def records(chat: str, lines: list[str]) -> list[Any]:
    return list(whatsapp.parse(lines, ImportOptions(chat_id=chat, time_zone="Asia/Tokyo", date_order="dmy")))


Import = Callable[..., int]


@pytest.fixture
def imported(database: Database, rules: SessionPolicy) -> Import:
    """Import an export as a chat, or as versions did `before` in which a name was one person everywhere."""

    def store(chat: str, lines: list[str], *, before: bool = False) -> int:
        parsed = [
            replace(each, message=each.message.model_copy(update={"sender_id": sender}))
            if before and isinstance(each, Record) and (sender := without_chat(each.message.sender_id))
            else each
            for each in records(chat, lines)
        ]
        events = history.store(database, TENANT, parsed, rules, settle=timedelta(0))
        return sum(event.new for event in events if isinstance(event, history.Stored))

    return store


def senders(database: Database) -> list[tuple[object, ...]]:
    return rows(database, "SELECT chat_id, sender_id, count(*) FROM messages GROUP BY 1, 2 ORDER BY 1, 2")


def mentions(database: Database, sender_id: str) -> dict[str, int]:
    """How many rows of each table name an id."""
    counted = {
        table: rows(database, f"SELECT count(*) FROM {table} t WHERE t::text ~ '{sender_id}(?![@%])'")[0][0]
        for table in OF_TENANTS
    }
    return {table: int(str(count)) for table, count in counted.items() if count}


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


def test_importing_again_doubles_nobody_before_and_after_people_are_told_apart(
    run: Run, database: Database, imported: Import
) -> None:
    name = "Анна"
    old, new = f"whatsapp:{name}", sender_by_name("whatsapp", ONE, name)
    texts = ["один", "二", "ثلاثة"]
    imported(ONE, said(name, texts[0]), before=True)
    assert imported(ONE, said(name, *texts[:2])) == 1
    assert senders(database) == [(ONE, old, 2)]
    run("users", "tell-apart", "--yes")
    assert senders(database) == [(ONE, new, 2)]
    assert [imported(ONE, said(name, *texts[:count])) for count in (1, 2, 3, 3)] == [0, 0, 1, 0]
    assert senders(database) == [(ONE, new, 3)]
    assert rows(database, "SELECT sender_id FROM chat_members") == [(new,)]


def old_memories(database: Database, old: str, ids: dict[str, str]) -> None:
    """What versions before would have made of two who are one by name."""
    both = list(ids.values())
    for content, chat, messages, attribute, value, more in (
        ("lives in 里斯本", ONE, [ids[ONE]], "home", "1", {}),
        ("is 素食者", ONE, both, "diet", "vegan", {"also_in": [TWO]}),
        ("lives in 波尔图", TWO, [ids[TWO]], "home", "2", {}),
    ):
        fields = {"learned_in": chat, "attribute": attribute, "value": value, **more}
        learned(database, content, user_id=old, messages=messages, **fields)
    homes = rows(database, "SELECT id FROM memories WHERE attribute = 'home' ORDER BY value")
    with database.tenant(TENANT) as connection:
        learned_store.supersede(connection, TENANT, [(homes[0][0], homes[1][0])])
    learned(database, "喜欢茶", user_id=old, learned_by="")


def test_telling_apart_takes_along_all_that_was_made_of_them(
    run: Run, database: Database, imported: Import, workers: Workers
) -> None:
    name, old = "王芳", "whatsapp:王芳"
    one, two = (sender_by_name("whatsapp", chat, name) for chat in (ONE, TWO))
    for chat in (ONE, TWO):
        imported(chat, [*said(name, "你好"), *said("+49 170 1234567", "привет")], before=True)
    workers.finish()
    said_by = rows(database, f"SELECT chat_id, external_id FROM messages WHERE sender_id = '{old}'")
    ids = {str(chat): f"{chat}/{external}" for chat, external in said_by}
    old_memories(database, old, ids)
    with database.tenant(TENANT) as connection:
        for statement in MADE:
            connection.execute(text(statement), {"tenant": TENANT, "old": old, "chat": TWO})
    shown = run("users", "tell-apart", "--dry-run", "--json").json
    assert [each["sender_id"] for each in shown["people"][0]["chats"]] == [one, two]
    assert len(senders(database)) == 4
    assert "names" in found(run)
    told = run("users", "tell-apart", "--yes", "--json").json
    assert told["memories_left"] == {old: 1}
    # of what was learned in no chat nobody can say whose it is
    assert mentions(database, old) == {"memories": 1}
    workers.finish()
    pages = [run("users", "show", who, "--json").json for who in (one, two)]
    assert [sorted(each["content"] for each in page["current"]) for page in pages] == [
        ["is 素食者", "lives in 里斯本"],
        ["is 素食者", "lives in 波尔图"],
    ]
    assert [page["earlier"] for page in pages] == [[], []]
    assert rows(database, "SELECT user_id FROM query_log") == [(two,)]
    named = "SELECT m.user_id = e.user_id FROM memory_entities e JOIN memories m ON m.id = e.memory_id"
    assert rows(database, named) == [(True,)] * 4
    assert run("users", "tell-apart", "--yes", "--json").json["people"] == []
    assert "names" not in found(run)
    run("forget", "user", two, "--yes")
    assert mentions(database, two) == {}
    assert [each["content"] for each in run("users", "show", one, "--json").json["current"]] != []


MADE = (
    """INSERT INTO query_log (tenant_id, context_id, chat_id, user_id, profile, asked_at, shown, tokens, chars,
        used_tokens, budget, latency_ms, degraded)
    VALUES (:tenant, 'c', :chat, :old, 'balanced', now(), '{}', '{}', '{}', 0, 0, 0, '{}')""",
    """INSERT INTO pruned_senders (tenant_id, session_id, sender_id)
    SELECT :tenant, id, :old FROM conversation_sessions WHERE chat_id = :chat""",
    """INSERT INTO memory_entities (tenant_id, memory_id, user_id, entity, name, alias, short, kind, relation)
    SELECT :tenant, id, :old, '', '王芳', '王芳', '', 'person', '' FROM memories
    WHERE user_id = :old AND learned_in IS NOT NULL""",
)


@pytest.mark.parametrize("own_name", ["аня", "telegram:11"])
def test_who_was_linked_stays_one_person(
    run: Run, database: Database, imported: Import, own_name: str
) -> None:
    old = "whatsapp:Аня"
    for chat in (ONE, TWO):
        imported(chat, said("Аня", f"в {chat}"), before=True)
    # either may be the person's id
    sender, user = (old, own_name) if own_name == "аня" else (own_name, old)
    run("users", "link", sender, user, "--unseen")
    assert "names" not in found(run)
    assert run("users", "tell-apart", "--yes").code == 0
    assert imported(ONE, said("Аня", f"в {ONE}", "новое")) == 1
    person = run("users", "show", sender_by_name("whatsapp", ONE, "Аня"), "--json").json
    assert (person["user_id"], sender_by_name("whatsapp", TWO, "Аня") in person["senders"]) == (user, True)
    assert exported(run, user).count('"record":"message"') == 3


@pytest.mark.parametrize("told_apart", [True, False])
def test_who_was_forgotten_or_switched_off_by_name_stays_so_in_every_chat(
    run: Run, database: Database, imported: Import, told_apart: bool
) -> None:
    imported(ONE, [*said("Łukasz", "sekret"), *said("عمر", "سر")], before=True)
    run("forget", "user", "whatsapp:Łukasz", "--yes")
    run("remember", "user", "whatsapp:عمر", "off")
    if told_apart:
        run("users", "tell-apart", "--yes")
    for chat in (ONE, TWO):
        assert imported(chat, [*said("Łukasz", "sekret", "drugi"), *said("عمر", "سر", "ثان")]) == 0
    omar = sender_by_name("whatsapp", ONE, "عمر")
    assert not run("users", "show", omar, "--unseen", "--json").json["remembered"]
    assert "whatsapp:عمر" in run("remember", "user", omar, "on", "--unseen").err
    assert run("remember", "user", "whatsapp:عمر", "on", "--unseen").code == 0
    assert imported(TWO, said("عمر", "سر")) == 1


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
