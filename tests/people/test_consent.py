"""Whose words are not stored, and whose name is not kept: what was forgotten, switched off or left stays so."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import pairwise, product

import pytest
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.people import identities, suppression
from pipeline.people.suppression import Named
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as suppression_list
from pipeline.text.duplicates import fingerprint, fingerprints_ever
from schemas.errors import InvalidInput, NotFound
from schemas.memories import MemoryIn
from schemas.messages import ChatIn, MessageIn
from tests.conftest import EPOCH, message
from tests.harness.pipeline import speaks
from tests.waiting import SECONDS, until

CHAT, OTHER = ChatIn(chat_id="test:1"), ChatIn(chat_id="test:2")
NOON, BEFORE, AFTER = EPOCH, EPOCH - timedelta(seconds=1), EPOCH + timedelta(seconds=1)


def forget(database: Database, tenant: str, *named: Named, until: datetime | None = NOON) -> None:
    with database.tenant(tenant) as connection:
        for name in named:
            suppression.put(connection, tenant, [name], until)


def said(sender: str, at: datetime, **fields: object) -> MessageIn:
    return message(0, id=f"{sender}-{at}", sender_id=sender, sent_at=at, **fields)


def admitted(
    database: Database,
    tenant: str,
    messages: Sequence[MessageIn],
    chat: str = CHAT.chat_id,
    former: Sequence[str] = (),
) -> suppression.Admitted:
    with database.tenant(tenant) as connection:
        key = suppression_list.key(connection)
        return suppression.admit(connection, key, chat, messages, former=former)


# Which words


@pytest.mark.parametrize("named", [("user", "test:ann"), ("chat", "test:1"), ("tenant",)])
def test_what_was_said_up_to_a_forgetting_stays_out_and_what_is_said_later_is_stored(
    shared: Database, tenant: str, named: Named
) -> None:
    times = (BEFORE, NOON, AFTER)
    spoken = [said(sender, at) for sender, at in product(("test:ann", "test:bob"), times)]
    # nobody was forgotten, and nobody has a key yet
    assert admitted(shared, tenant, spoken).messages == spoken
    forget(shared, tenant, named)
    senders = {"test:ann"} if named[0] == "user" else {"test:ann", "test:bob"}
    out = [m.external_id for m in spoken if m.sender_id in senders and m.sent_at <= NOON]
    found = admitted(shared, tenant, spoken)
    assert found.kept_out == out
    assert [m.external_id for m in found.messages] == [
        m.external_id for m in spoken if m.external_id not in out
    ]
    assert not found.unnamed
    # elsewhere the chat's entry says nothing
    elsewhere = admitted(shared, tenant, spoken, OTHER.chat_id).kept_out
    assert elsewhere == ([] if named[0] == "chat" else out)
    # nor does any of another tenant
    assert admitted(shared, f"{tenant}-other", spoken).kept_out == []


def test_a_deleted_message_never_comes_again_and_others_of_its_id_do(shared: Database, tenant: str) -> None:
    late = message(0, id="7", sent_at=AFTER)
    forget(shared, tenant, ("message", CHAT.chat_id, "7"), until=None)
    assert admitted(shared, tenant, [late, message(0, id="77")]).kept_out == ["7"]
    assert admitted(shared, tenant, [late], OTHER.chat_id).kept_out == []
    with shared.tenant(tenant) as connection:
        assert suppression.deleted(connection, CHAT.chat_id, ["7", "77"]) == {"7"}
        assert suppression.is_suppressed(connection, "message", CHAT.chat_id, "7")
        assert not suppression.is_suppressed(connection, "message", CHAT.chat_id, "77")
        # what is only forgotten up to a time may be stored
        suppression.put(connection, tenant, [("user", "test:ann")], NOON)
        assert not suppression.is_suppressed(connection, "user", "test:ann")


def test_of_several_forgettings_the_latest_counts(shared: Database, tenant: str) -> None:
    spoken = [said("test:ann", AFTER)]
    for end, stored in ((NOON, True), (AFTER, False), (BEFORE, False), (None, False)):
        forget(shared, tenant, ("user", "test:ann"), until=end)
        assert (admitted(shared, tenant, spoken).messages == spoken) == stored


def test_of_several_that_were_forgotten_the_one_forgotten_last_counts(shared: Database, tenant: str) -> None:
    forget(shared, tenant, ("chat", CHAT.chat_id), until=BEFORE)
    forget(shared, tenant, ("user", "test:ann"), until=NOON)
    spoken = [said("test:ann", NOON), said("test:ann", AFTER)]
    assert admitted(shared, tenant, spoken).messages == spoken[1:]
    for at, is_out in ((NOON, True), (AFTER, False)):
        with shared.tenant(tenant) as connection:
            named: tuple[Named, ...] = (("chat", CHAT.chat_id), ("user", "test:ann"))
            assert suppression.is_kept_out(connection, at, *named) == is_out
            assert suppression.keeps_out(connection, memory(said_at=at)) == is_out


def test_a_member_whose_memory_is_off_is_there_unnamed_and_a_bot_is_no_member(
    shared: Database, tenant: str
) -> None:
    suppression.remember_user(shared, tenant, "test:dee", remembered=False)
    dee, bot = said("test:dee", AFTER), said("test:dee", AFTER, role="assistant")
    assert admitted(shared, tenant, [dee]).unnamed
    assert not admitted(shared, tenant, [bot]).unnamed
    assert admitted(shared, tenant, [bot]).kept_out == [bot.external_id]
    assert not admitted(shared, tenant, [said("test:ann", AFTER)]).unnamed


def test_words_without_a_time_count_as_older_than_any_forgetting(shared: Database, tenant: str) -> None:
    def is_out(sender: str | None, at: datetime | None) -> bool:
        return suppression.keeps_out_sender(shared, tenant, CHAT.chat_id, sender, at)

    assert not is_out("test:ann", None)
    forget(shared, tenant, ("user", "test:ann"))
    assert [is_out("test:ann", at) for at in (None, BEFORE, NOON, AFTER)] == [True, True, True, False]
    assert not is_out("test:bob", None)
    assert not is_out(None, None)
    suppression.remember_user(shared, tenant, "test:ann", remembered=False)
    assert is_out("test:ann", AFTER)


def test_a_hash_tells_apart_who_and_what_and_whose_it_is() -> None:
    names: list[Named] = [
        ("user", "ann"),
        ("chat", "ann"),
        ("message", "ann", "1"),
        ("message", "ann1", ""),
        ("message", "an", "n1"),
        ("tenant",),
    ]
    hashes = {suppression.hash_of(key, *name) for key in (b"a" * 32, b"b" * 32) for name in names}
    assert len(hashes) == 2 * len(names)
    assert suppression.hashes(None, *names) == []


# Which memories


def memory(**fields: object) -> MemoryIn:
    given = {"scope": "user", "user_id": "test:ann", "content": "likes tea", "learned_in": CHAT.chat_id}
    return MemoryIn.model_validate(given | fields)


@pytest.mark.parametrize(
    ("named", "now", "earlier", "of_another"),
    [
        # forgotten up to a time: what is learned now is new
        (("user", "test:ann"), False, True, False),
        (("chat", CHAT.chat_id), False, True, True),
        (("tenant",), False, True, True),
        # the very same statement comes back, unless it was said later; an earlier release told full stops apart
        (("memory", "user", "test:ann", "", fingerprint("Likes tea.").hex()), True, True, False),
        (("memory", "user", "test:ann", "", fingerprints_ever("likes tea")[1].hex()), True, True, False),
        (("user", "test:bob"), False, False, False),
        (("chat", "test:2"), False, False, False),
        (("memory", "agent", "", "bot", fingerprint("likes tea").hex()), False, False, False),
    ],
)
def test_a_memory_of_what_was_forgotten_does_not_come_back(
    shared: Database, tenant: str, named: Named, *, now: bool, earlier: bool, of_another: bool
) -> None:
    forget(shared, tenant, named)
    with shared.tenant(tenant) as connection:

        def is_out(**fields: object) -> bool:
            return suppression.keeps_out(connection, memory(**fields))

        assert is_out() == now
        assert [is_out(said_at=at) for at in (BEFORE, NOON, AFTER)] == [earlier, earlier, False]
        # somebody else's of the same words
        assert is_out(user_id="test:cy", said_at=BEFORE) == of_another
        # and what everybody may know, learned nowhere
        everybody = {"scope": "organization", "user_id": None, "learned_in": None}
        assert is_out(**everybody, said_at=BEFORE) == (named == ("tenant",))
        # as what an agent knows of itself is that agent's
        agents = everybody | {"scope": "agent", "agent_id": "bot"}
        assert is_out(**agents, said_at=NOON) == (named[:2] in (("tenant",), ("memory", "agent")))


# Who is in a chat


def members(database: Database, tenant: str, chat: str = CHAT.chat_id) -> tuple[list[str], bool]:
    found = identities.show_members(database, tenant, chat)
    return found.members, found.unnamed


def change(
    database: Database,
    tenant: str,
    *,
    joined: Sequence[str] = (),
    left: Sequence[str] = (),
    at: datetime | None = None,
) -> None:
    identities.change_members(database, tenant, CHAT.chat_id, joined, left, at)


def test_members_come_and_go_and_an_event_that_is_repeated_brings_nobody_back(
    shared: Database, tenant: str
) -> None:
    change(shared, tenant, joined=["test:ann", "test:bob", "test:cy"], at=BEFORE)
    change(shared, tenant, left=["test:ann"], at=NOON)
    assert members(shared, tenant) == (["test:bob", "test:cy"], False)
    # that she joined comes again, late
    for at in (BEFORE, NOON):
        change(shared, tenant, joined=["test:ann"], at=at)
        assert members(shared, tenant) == (["test:bob", "test:cy"], False)
    # in another chat she has not left
    identities.change_members(shared, tenant, OTHER.chat_id, ["test:ann"], [], BEFORE)
    assert members(shared, tenant, OTHER.chat_id) == (["test:ann"], False)
    change(shared, tenant, joined=["test:ann"], at=AFTER)
    assert members(shared, tenant) == (["test:ann", "test:bob", "test:cy"], False)
    # and whoever leaves now, without a time, is gone as well, until they join now
    change(shared, tenant, left=["test:bob"])
    change(shared, tenant, joined=["test:bob"], at=AFTER)
    assert members(shared, tenant) == (["test:ann", "test:cy"], False)
    change(shared, tenant, joined=["test:bob"])
    assert members(shared, tenant) == (["test:ann", "test:bob", "test:cy"], False)


def test_whoever_has_spoken_since_they_are_said_to_have_left_stays(shared: Database, tenant: str) -> None:
    speaks(shared, tenant, CHAT, "test:ann", "still here", minute=1)
    change(shared, tenant, joined=["test:bob"], left=["test:ann"], at=NOON)
    assert members(shared, tenant) == (["test:ann", "test:bob"], False)
    change(shared, tenant, left=["test:ann"], at=EPOCH + timedelta(minutes=1))
    assert members(shared, tenant) == (["test:bob"], False)


def test_whoever_is_forgotten_or_off_is_in_a_chat_without_a_name_or_not_at_all(
    shared: Database, tenant: str
) -> None:
    speaks(shared, tenant, CHAT, "test:bob", "hello", minute=1)
    suppression.remember_user(shared, tenant, "test:dee", remembered=False)
    forget(shared, tenant, ("user", "test:eve"))
    # an old event says nothing of who was forgotten since, and a new one names them
    change(shared, tenant, joined=["test:eve"], at=NOON)
    assert members(shared, tenant) == (["test:bob"], False)
    change(shared, tenant, joined=["test:eve"], at=AFTER)
    assert members(shared, tenant) == (["test:bob", "test:eve"], False)
    change(shared, tenant, left=["test:eve"], at=AFTER)
    # one without a time may be either: somebody is there, nobody knows who
    change(shared, tenant, joined=["test:eve"])
    assert members(shared, tenant) == (["test:bob"], True)
    identities.set_members(shared, tenant, CHAT.chat_id, ["test:bob"])
    assert members(shared, tenant) == (["test:bob"], False)
    for at in (NOON, None):
        change(shared, tenant, joined=["test:dee"], at=at)
        assert members(shared, tenant) == (["test:bob"], True)
    told = identities.set_members(
        shared, tenant, CHAT.chat_id, ["test:bob", "test:dee", "test:cy", "test:bob"]
    )
    assert (told.members, told.unnamed) == (["test:bob", "test:cy"], True)
    # one has spoken, and so has a name to show
    assert told.names == {"test:bob": ["Ann Ambler"]}


@pytest.mark.parametrize("at_once", [True, False])
def test_whoever_is_off_and_spoke_before_anybody_else_is_there_without_a_name(
    shared: Database, tenant: str, at_once: bool
) -> None:
    suppression.remember_user(shared, tenant, "test:dee", remembered=False)
    # more than are stored in one transaction
    off = [message(n, id=f"off-{n}", sender_id="test:dee") for n in range(accept.SLICE_MESSAGES)]
    others = [message(len(off), sender_id="test:ann")]
    for spoken in [off + others] if at_once else [off, others]:
        accept.accept(shared, tenant, CHAT, spoken)
    assert members(shared, tenant) == (["test:ann"], True)
    # no chat is made whose id is their own, nor one that was forgotten since
    accept.accept(shared, tenant, ChatIn(chat_id="test:dees", kind="direct"), off)
    forget(shared, tenant, ("chat", OTHER.chat_id), until=EPOCH + timedelta(days=1))
    accept.accept(shared, tenant, OTHER, off)
    for chat_id in ("test:dees", OTHER.chat_id):
        with pytest.raises(NotFound):
            identities.show_members(shared, tenant, chat_id)


def test_an_event_makes_the_chat_that_nobody_knows_but_none_that_was_forgotten_since(
    shared: Database, tenant: str
) -> None:
    for chat_id in (CHAT.chat_id, OTHER.chat_id):
        for unknown in (identities.show_members, lambda *where: identities.set_members(*where, ["test:ann"])):
            with pytest.raises(NotFound, match=chat_id):
                unknown(shared, tenant, chat_id)
    forget(shared, tenant, ("chat", CHAT.chat_id))
    change(shared, tenant, joined=["test:ann"], at=NOON)
    with pytest.raises(NotFound):
        identities.show_members(shared, tenant, CHAT.chat_id)
    change(shared, tenant, joined=["test:ann"], at=AFTER)
    identities.change_members(shared, tenant, OTHER.chat_id, ["test:ann"], [], BEFORE)
    for chat_id in (CHAT.chat_id, OTHER.chat_id):
        assert members(shared, tenant, chat_id) == (["test:ann"], False)


CHANGES: list[Callable[[Database, str], object]] = [
    lambda database, tenant: identities.link(database, tenant, "a:1", "ann"),
    lambda database, tenant: identities.unlink(database, tenant, "a:1"),
    lambda database, tenant: suppression.remember_user(database, tenant, "a:1", remembered=False),
    lambda database, tenant: identities.set_members(database, tenant, CHAT.chat_id, ["a:1"]),
    lambda database, tenant: identities.change_members(database, tenant, CHAT.chat_id, ["a:1"], [], NOON),
]


@pytest.mark.parametrize("act", CHANGES)
def test_a_change_of_who_is_who_and_where_waits_for_what_is_being_stored(
    shared: Database, tenant: str, act: Callable[[Database, str], object]
) -> None:
    speaks(shared, tenant, CHAT, "a:1", "hello")
    with ThreadPoolExecutor(1) as pool:
        with shared.tenant(tenant) as connection:
            # Given a message that is being stored in this chat
            suppression_list.lock(connection, tenant, CHAT.chat_id)
            changing = pool.submit(act, shared, tenant)
            waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'")
            until(lambda: changing.done() or connection.scalar(waiting), "the change waits")
            assert not changing.done()
        changing.result(SECONDS)


# Who is one person


def test_ids_that_mean_one_person_are_united_unless_somebody_has_said_otherwise(
    shared: Database, tenant: str
) -> None:
    def united(one: str, other: str) -> list[tuple[str, list[str]]]:
        with shared.tenant(tenant) as connection:
            suppression_list.lock(connection, tenant, exclusive=True)
            identities.unite(connection, tenant, one, other)
        return [(user.user_id, user.senders) for user in identities.listing(shared, tenant)]

    assert united("a:1", "b:1") == [("b:1", ["a:1"])]
    # again, and the other way round
    assert united("a:1", "b:1") == united("b:1", "a:1") == [("b:1", ["a:1"])]
    # a user whom somebody has named keeps the name, on either side
    identities.link(shared, tenant, "a:2", "ann")
    identities.link(shared, tenant, "b:3", "bob")
    assert united("a:2", "b:2")[:1] == [("ann", ["a:2", "b:2"])]
    assert ("bob", ["a:3", "b:3"]) in united("a:3", "b:3")
    # two named users stay two
    known = united("a:2", "b:3")
    assert united("b:3", "a:2") == known
    assert [user for user, _ in known] == ["ann", "b:1", "bob"]
    # page by page, by id
    pages = [identities.listing(shared, tenant, after=after, limit=1) for after in ("", "ann", "b:1", "bob")]
    assert [[user.user_id for user in page] for page in pages] == [["ann"], ["b:1"], ["bob"], []]


def test_a_sender_moves_alone_and_a_user_with_all_their_senders(shared: Database, tenant: str) -> None:
    for sender in ("a:1", "b:1"):
        identities.link(shared, tenant, sender, "ann")
    assert identities.link(shared, tenant, "a:1", "bob").user.senders == ["a:1"]
    assert identities.show(shared, tenant, "ann").senders == ["b:1"]
    # by her own id she is linked with all that is hers
    assert identities.link(shared, tenant, "ann", "bob").user.senders == ["a:1", "ann", "b:1"]
    # only a user's own sender is taken from them
    assert identities.unlink(shared, tenant, "a:1", "cy").outcome == "unchanged"
    assert identities.show(shared, tenant, "a:1").user_id == "bob"
    assert identities.unlink(shared, tenant, "a:1", "b:1").outcome == "unlinked"
    assert identities.show(shared, tenant, "a:1").user_id == "a:1"


def test_a_person_has_so_many_ids_and_no_more(
    shared: Database, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identities, "MAX_IDS", 3)
    for sender in ("a:1", "a:2"):
        identities.link(shared, tenant, sender, "ann")
    with pytest.raises(InvalidInput, match="ann would have 4 ids"):
        identities.link(shared, tenant, "a:3", "ann")
    with pytest.raises(InvalidInput, match=r"the user's own id: unlink the others from it \(a:1, a:2\)"):
        identities.unlink(shared, tenant, "ann")
    for earlier, later in pairwise(["a:1", "a:2", "ann"]):
        assert identities.show(shared, tenant, earlier) == identities.show(shared, tenant, later)
