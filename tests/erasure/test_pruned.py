"""Whose a session is stays known when retention has removed its messages: to forgetting, and to an export."""

from collections.abc import Sequence

import pytest

from pipeline.erasure import edits
from pipeline.ingest import accept, chat_moves
from pipeline.operations import transfer
from pipeline.operations.retention import prune, retention_of
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn, MessageIn
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import SESSION_POLICY, TENANT, also_partitioned, message
from tests.harness.forgetting import everywhere, forgotten, work
from tests.harness.pipeline import forget_all, rows

GROUP, DIRECT = ChatIn(chat_id="test:group"), ChatIn(chat_id="test:direct", kind="direct")
OTHER = ChatIn(chat_id="test:other")
KIM, OTHER_KIM = "test:kim", "test:other-kim"
SUMMARIZED = "SELECT chat_id FROM conversation_sessions WHERE summary_text IS NOT NULL ORDER BY chat_id"


def diary(sender: str = KIM, minute: float = 0) -> list[MessageIn]:
    """What somebody called Kim says, enough to be summarized."""
    return [
        message(
            minute + n,
            f"my zebrafish number {n} lives in Zebrafish Bay, we decided to feed it on day {n}.",
            id=f"{sender}-{minute + n}",
            sender_id=sender,
            sender_name="Kim",
        )
        for n in range(4)
    ]


def chat(minute: float = 0.5) -> list[MessageIn]:
    """What Ann says in between, enough to be summarized."""
    return [message(minute + n, f"the boiler shows error E{40 + n}", id=f"a{minute + n}") for n in range(4)]


class Talk:
    """A database in which people talk, and retention removes what they said."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def store(self, there: ChatIn, said: Sequence[MessageIn]) -> None:
        """Store what is said in a chat, summarize it and learn from it."""
        accept.accept(self.database, TENANT, there, said)
        work(self.database)

    def prune(self) -> int:
        """Remove what was said more than a day ago, in small batches; how many messages."""
        keep = retention_of(Settings(_env_file=None, retention_days=1))
        return prune(self.database, TENANT, keep, batch=3)["messages_by_age"]

    def forget(self, sender: str) -> None:
        forgotten(self.database, Subject(kind="user", sender_id=sender))
        work(self.database)

    def exported(self, sender: str) -> list[str]:
        """The chats of the sessions in the export of a person."""
        records = transfer.export_user(self.database, TENANT, sender)
        return [record["chat_id"] for record in records if record["record"] == "session"]

    def summarized(self) -> list[object]:
        """The chats of the sessions that have a summary."""
        return [row[0] for row in rows(self.database, SUMMARIZED)]

    def now(self) -> float:
        """This moment, in minutes as messages are given."""
        ((minutes,),) = rows(
            self.database, "SELECT extract(epoch FROM now() - '2026-03-02T18:00Z'::timestamptz) / 60"
        )
        return float(str(minutes)) - 30


@pytest.fixture
def talk(database: Database) -> Talk:
    return Talk(database)


def test_somebody_of_the_same_name_gets_and_takes_nothing_of_anothers(talk: Talk) -> None:
    # Given that one Kim talks in private and another in a group, and retention has removed the messages
    talk.store(DIRECT, diary())
    talk.store(GROUP, [*diary(OTHER_KIM), *chat()])
    assert talk.prune() == 12
    assert talk.exported(OTHER_KIM) == ["test:group"]
    talk.forget(OTHER_KIM)
    # Then what the first one said in private is summarized as before, and is theirs
    assert talk.summarized() == ["test:direct"]
    assert talk.exported(KIM) == ["test:direct"]


@also_partitioned
def test_nothing_is_left_of_who_is_forgotten_after_all_their_messages_were_pruned(talk: Talk) -> None:
    talk.store(DIRECT, diary())
    talk.store(GROUP, [*diary(minute=100), *chat(100.5)])
    talk.store(OTHER, chat())
    talk.prune()
    assert "conversation_sessions.summary_text" in everywhere(talk.database, "Zebrafish")
    # and who is called otherwise since then
    robin = message(talk.now(), "hello", id="r", sender_id=KIM, sender_name="Robin")
    talk.store(GROUP, [robin])
    talk.forget(KIM)
    for words in ("zebrafish", "kim", "robin"):
        assert everywhere(talk.database, words) == []
    assert talk.summarized() == ["test:other"]


def pruned_at_first(talk: Talk) -> None:
    """Store a session, and remove its beginning with all that Kim said."""
    talk.store(GROUP, [*diary(), *chat(20)])
    keep = retention_of(Settings(_env_file=None, retention_messages_per_chat=4))
    assert prune(talk.database, TENANT, keep)["messages_by_count"] == 4
    assert talk.exported(KIM) == ["test:group"]


def test_what_others_go_on_saying_in_a_pruned_session_stays_when_somebody_in_it_is_forgotten(
    talk: Talk,
) -> None:
    pruned_at_first(talk)
    talk.forget(KIM)
    # Then it is summarized again from what the others have said
    assert everywhere(talk.database, "zebrafish") == everywhere(talk.database, "kim") == []
    assert talk.summarized() == ["test:group"]
    assert (talk.exported(KIM), talk.exported("test:ann")) == ([], ["test:group"])


def test_a_deleted_message_takes_along_what_its_pruned_session_told(talk: Talk) -> None:
    pruned_at_first(talk)
    edits.delete(talk.database, TENANT, GROUP.chat_id, "a20", SESSION_POLICY)
    work(talk.database)
    assert everywhere(talk.database, "zebrafish") == []
    assert (talk.exported(KIM), talk.exported("test:ann")) == ([], ["test:group"])


def test_sessions_that_are_joined_or_moved_after_they_were_pruned_stay_whose_they_were(talk: Talk) -> None:
    # Given two sessions that are pruned, the later one with Kim
    talk.store(GROUP, [*chat(), *diary(minute=55)])
    assert rows(talk.database, "SELECT count(*) FROM conversation_sessions") == [(2,)]
    talk.prune()
    # When a message that comes late joins them, and their chat gets another id
    talk.store(GROUP, [message(30, "the plumber is Beatriz", id="late")])
    assert talk.exported(KIM) == ["test:group"]
    chat_moves.start(talk.database, TENANT, GROUP.chat_id, OTHER.chat_id)
    forget_all(talk.database)
    work(talk.database)
    assert talk.exported(KIM) == talk.exported("test:ann") == ["test:other"]
    talk.forget(KIM)
    assert everywhere(talk.database, "zebrafish") == everywhere(talk.database, "kim") == []
