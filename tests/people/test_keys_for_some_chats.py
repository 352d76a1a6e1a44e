"""Whoever holds a key for some chats learns nothing of others, whatever they state, and makes nobody else show more."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.people.visibility import Place, visible
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.api.conftest import client
from tests.conftest import TENANT
from tests.harness.learning import Talk
from tests.harness.pipeline import rows

__all__ = ["client"]

ALICE, BOB, MALLORY = "tg:alice", "tg:bob", "tg:mallory"
OWN, OTHER_OWN = "tg:mallorys", "tg:mallorys-second"
PRIVATE, COUPLE = "tg:alice-alone", "tg:alice-and-bob"
PIN, SAFE, CLINIC, OWN_SECRET = "5518", "884421", "Friday", "xyzzy"
QUESTION = "What is the pin, the safe code, the appointment at the clinic, the crypt word?"
SECRETS = (PIN, SAFE, CLINIC)


def tell(client: httpx.Client, chat: str | dict[str, str], *senders: str, first: int = 1) -> None:
    messages = [
        {"external_id": f"{first + n}", "sender_id": sender, "content": "Hi.", "sent_at": 1777300000 + 60 * n}
        for n, sender in enumerate(senders)
    ]
    assert client.post("/v1/messages", json={"chat": chat, "messages": messages}).status_code == 202


def remember(client: httpx.Client, content: str, learned_in: str | None, user: str | None = ALICE) -> None:
    owner = {"scope": "organization"} if user is None else {"scope": "user", "user_id": user}
    memory = owner | {"content": content, "learned_in": learned_in}
    assert client.post("/v1/memories", json=memory).status_code == 201


def shown(client: httpx.Client, chat: str, user: str | None = ALICE) -> set[str]:
    """Which of the secrets a context shows, by whichever of them a search or a list does, too."""
    asked = {"chat_id": chat, "query": QUESTION, "user_id": user, "parameters": {"memories": 50}}
    answers = [
        client.post("/v1/context", json={name: value for name, value in asked.items() if value is not None}),
        client.post("/v1/memories/search", json={"chat_id": chat, "query": QUESTION, "limit": 50}),
        client.get("/v1/memories", params={"chat_id": chat}),
    ]
    text = " ".join(answer.raise_for_status().text for answer in answers)
    return {secret for secret in (*SECRETS, OWN_SECRET) if secret in text}


@pytest.fixture
def world(client: httpx.Client) -> httpx.Client:
    """Alice alone with the bot, a group of hers with Bob, and what was learned there or in no chat."""
    tell(client, {"chat_id": PRIVATE, "kind": "direct"}, ALICE)
    tell(client, {"chat_id": COUPLE, "kind": "group"}, ALICE, BOB)
    remember(client, f"Her pin is {PIN}.", PRIVATE)
    remember(client, f"Their safe code is {SAFE}.", COUPLE)
    remember(client, f"An appointment at the clinic on {CLINIC}.", None)
    return client


def key_for(client: httpx.Client, *chats: str, **fields: Any) -> str:
    wanted = {
        "label": "mallory",
        "scopes": ["ingest", "context", "read", "erase"],
        "chats": list(chats) or None,
    }
    made = client.post("/v1/keys", json=wanted | fields)
    assert made.status_code == 201, made.text
    return str(made.json()["key"])


@contextmanager
def confined(world: httpx.Client, *chats: str, **fields: Any) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {key_for(world, *chats, **fields)}"}
    with httpx.Client(base_url=world.base_url, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture
def mallory(world: httpx.Client) -> Iterator[httpx.Client]:
    """With a key for two chats of their own."""
    with confined(world, OWN, OTHER_OWN) as client:
        yield client


def members(client: httpx.Client, chat: str, *senders: str) -> httpx.Response:
    return client.put(f"/v1/chats/{chat}/members", json={"members": list(senders)})


def happened(in_chat: str, **said: Any) -> dict[str, Any]:
    """An update of Telegram's, of a group unless it says otherwise."""
    number = int(in_chat.partition(":")[2])
    about = {
        "chat": {"id": number, "type": "supergroup", "title": "All"},
        "date": 1777400000,
        "message_id": 900,
    }
    return {
        "update_id": 1,
        "message": about | {"from": {"id": 7, "is_bot": False, "first_name": "Al"}} | said,
    }


def test_whoever_claims_to_be_alone_with_alice_is_not_shown_what_she_said_elsewhere(
    mallory: httpx.Client, world: httpx.Client
) -> None:
    tell(mallory, {"chat_id": OWN, "kind": "direct"}, ALICE)
    assert members(mallory, OWN, ALICE).status_code == 200
    assert shown(mallory, OWN) == shown(mallory, OWN, None) == set()
    # the key of all chats, which is trusted, sees in her direct chat what a direct chat may show
    assert shown(world, PRIVATE) == set(SECRETS)


def test_what_was_learned_in_its_own_chats_is_shown_between_them(
    mallory: httpx.Client, world: httpx.Client
) -> None:
    for chat in (OWN, OTHER_OWN):
        tell(mallory, {"chat_id": chat, "kind": "group"}, MALLORY, BOB)
    remember(world, f"The crypt word is {OWN_SECRET}.", OTHER_OWN, None)
    assert shown(mallory, OWN) == shown(mallory, OTHER_OWN) == {OWN_SECRET}
    # who asks there counts among who is there, as everywhere
    tell(mallory, OWN, "tg:eve", first=10)
    assert shown(mallory, OWN) == set()


def test_a_generous_tenant_is_generous_within_the_keys_chats(
    mallory: httpx.Client, world: httpx.Client, database: Database
) -> None:
    with database.tenant(TENANT) as connection:
        chats.set_tenant_setting(connection, TENANT, "audience", "tenant")
    for chat in (OWN, OTHER_OWN):
        tell(mallory, chat, MALLORY)
    remember(world, f"The crypt word is {OWN_SECRET}.", OTHER_OWN, None)
    assert shown(mallory, OWN) == {OWN_SECRET}
    assert shown(world, COUPLE) == {*SECRETS, OWN_SECRET}


def test_what_the_organization_knows_is_for_every_key_and_what_somebody_owns_is_not(
    mallory: httpx.Client, world: httpx.Client
) -> None:
    tell(mallory, {"chat_id": OWN, "kind": "direct"}, ALICE)
    remember(world, f"The office's crypt word is {OWN_SECRET}.", None, None)
    document = {"document_id": "hers", "user_id": ALICE, "content": f"My pin is {PIN} still."}
    assert world.post("/v1/documents", json=document).status_code == 201
    assert shown(mallory, OWN) == {OWN_SECRET}


def test_a_chat_that_such_a_key_makes_is_told_nothing_by_others_either(
    mallory: httpx.Client, world: httpx.Client
) -> None:
    """The bot with the key of all chats comes into the group that was declared to be Alice's direct chat."""
    tell(mallory, {"chat_id": OWN, "kind": "direct"}, ALICE)
    assert shown(world, OWN) & {PIN, SAFE} == set()
    assert world.get(f"/v1/chats/{OWN}/members").json()["apart"] is True
    # who may say so says that she is alone there
    assert members(world, OWN, ALICE).json()["apart"] is False
    assert shown(world, OWN) == set(SECRETS)


def test_such_a_key_makes_no_group_smaller_for_others(world: httpx.Client) -> None:
    tell(world, "telegram:-100400", ALICE)
    group = "telegram:-100400"
    left = happened(group, left_chat_member={"id": 66, "is_bot": False, "first_name": "Mal"})
    for attack in ("members", "event"):
        assert members(world, group, ALICE, BOB, "telegram:66").json()["apart"] is False
        assert shown(world, group) == {CLINIC}
        with confined(world, group) as holder:
            if attack == "members":
                assert members(holder, group, ALICE, BOB).status_code == 200
            else:
                assert holder.post("/v1/events/telegram", json=left).json()["members"] == 1
        assert shown(world, group) == {CLINIC}, attack
    assert members(world, group, ALICE, BOB).status_code == 200
    assert shown(world, group) == {SAFE, CLINIC}


def test_whoever_names_themselves_a_member_is_not_told_elsewhere_what_the_group_knows(
    world: httpx.Client,
) -> None:
    """A key that may only hand over the messages of the couple's group cannot have the bot tell Mallory about it."""
    tell(world, {"chat_id": "tg:mallory-alone", "kind": "direct"}, MALLORY)
    remember(world, f"Everybody's crypt word is {OWN_SECRET}.", COUPLE, None)
    with confined(world, COUPLE, scopes=["ingest"]) as holder:
        tell(holder, COUPLE, MALLORY, first=50)
        assert members(holder, COUPLE, ALICE, BOB, MALLORY).status_code == 200
    assert shown(world, "tg:mallory-alone", MALLORY) == {CLINIC}
    assert shown(world, COUPLE, BOB) >= {SAFE, OWN_SECRET}


@pytest.mark.parametrize("again", [False, True])
def test_such_a_key_makes_no_direct_chat_of_a_group(world: httpx.Client, again: bool) -> None:
    tell(world, {"chat_id": "tg:lone", "kind": "group"}, ALICE)
    with confined(world, "tg:lone") as holder:
        tell(
            holder, {"chat_id": "tg:lone", "kind": "direct", "title": "Lone"}, ALICE, first=1 if again else 5
        )
    chat = world.get("/v1/chats/tg:lone").json()
    assert (chat["kind"], chat["title"]) == ("group", "Lone")
    assert members(world, "tg:lone", ALICE).status_code == 200
    assert PIN not in shown(world, "tg:lone")


def test_an_event_makes_no_direct_chat_of_a_group_nor_moves_one_into_another(world: httpx.Client) -> None:
    group, other = "telegram:-100500", "telegram:-100501"
    for chat in (group, other):
        tell(world, {"chat_id": chat, "kind": "group"}, "telegram:7")
    remember(world, f"The crypt word is {OWN_SECRET}.", other, None)
    tell(world, {"chat_id": "telegram:66", "kind": "direct"}, "telegram:66")
    with confined(world, group, other) as holder:
        as_direct = happened(group, text="Hi.", chat={"id": -100500, "type": "private", "first_name": "Al"})
        assert holder.post("/v1/events/telegram", json=as_direct).json()["accepted"] == 1
        assert world.get(f"/v1/chats/{group}").json()["kind"] == "group"
        # Mallory comes into the one, and the one becomes the other
        tell(holder, group, "telegram:66", first=70)
        moved = holder.post("/v1/events/telegram", json=happened(group, migrate_to_chat_id=-100501))
        assert (moved.json()["moves"], moved.json()["left_out"]) == (0, {"not_allowed": 1})
    assert shown(world, "telegram:66", "telegram:66") == {CLINIC}


def test_a_private_chat_moves_into_a_group_by_a_key_for_all_chats_alone(world: httpx.Client) -> None:
    alone, group = "telegram:901", "telegram:-901"
    tell(world, {"chat_id": alone, "kind": "direct"}, "telegram:901")
    tell(world, {"chat_id": group, "kind": "group"}, "telegram:901", "telegram:902")
    remember(world, f"The crypt word is {OWN_SECRET}.", alone, "telegram:901")
    with confined(world, alone, group, scopes=["ingest"]) as holder:
        moved = holder.post("/v1/events/telegram", json=happened(alone, migrate_to_chat_id=-901))
        assert moved.json()["moves"] == 0
    with confined(world, group) as reader:
        assert reader.get(f"/v1/chats/{alone}/messages").status_code == 403
    assert OWN_SECRET not in shown(world, group, "telegram:902")


def test_such_a_key_cannot_have_a_group_begin_anew_without_its_silent_members(world: httpx.Client) -> None:
    tell(world, "tg:all", ALICE, BOB, MALLORY)
    with confined(world, "tg:all") as holder:
        assert holder.delete("/v1/chats/tg:all").status_code == 403
    assert shown(world, "tg:all") == {CLINIC}


def test_what_is_told_of_a_question_names_nobody_and_counts_nothing_of_elsewhere(
    mallory: httpx.Client, world: httpx.Client
) -> None:
    assert world.put(f"/v1/users/ann/senders/{ALICE}").status_code == 200
    tell(mallory, OWN, MALLORY)
    told = mallory.post(
        "/v1/context", json={"chat_id": OWN, "query": QUESTION, "user_id": ALICE, "explain": True}
    ).json()["explain"]
    assert told["asked_by"] == ALICE
    assert [dropped for dropped in told["dropped"] if dropped["reason"] == "audience"] == []


def test_what_moves_into_a_chat_stays_apart(mallory: httpx.Client, world: httpx.Client) -> None:
    tell(mallory, {"chat_id": OWN, "kind": "direct"}, ALICE)
    assert world.post(f"/v1/chats/{OWN}/rename", json={"to": "tg:renamed"}).status_code in {200, 202}
    assert world.get("/v1/chats/tg:renamed/members").json()["apart"] is True
    assert shown(world, "tg:renamed") & {PIN, SAFE} == set()
    # and its former id says nothing of who is in it
    refused = members(world, OWN, ALICE)
    assert (refused.status_code, "is tg:renamed now" in refused.text) == (404, True)


TRUE, FALSE = "Alice | pin | 5518", "Alice | cat | tom"
TOGETHER = "tg:mallory-and-alice"


def forge(mallory: httpx.Client, chat: str) -> None:
    """Have Alice say in a chat what she has said elsewhere, and what she has said nowhere."""
    messages = [
        {"external_id": words, "sender_id": ALICE, "sender_name": "Alice", "content": words}
        | {"sent_at": "2026-06-01T12:00:00Z"}
        for words in (TRUE, FALSE)
    ]
    assert mallory.post("/v1/messages", json={"chat": chat, "messages": messages}).status_code == 202


def told_of_both(mallory: httpx.Client, chat: str) -> None:
    """What is shown of the one statement differs in its words alone from what is shown of the other."""
    listed = mallory.get("/v1/memories", params={"chat_id": chat, "superseded": True}).json()["memories"]
    query = {"chat_id": chat, "query": "What are the pin and the cat of Alice?"}
    hits = mallory.post("/v1/memories/search", json=query).json()["hits"]
    for memories in (listed, [hit["memory"] for hit in hits]):
        assert sorted(memory["attribute"] for memory in memories) == ["cat", "pin"]
        words = {"content", "attribute", "value", "created_at", "id"}
        one, other = ({name: memory[name] for name in memory.keys() - words} for memory in memories)
        assert one == other
        # an id holds the time when it was made
        made = [(memory["created_at"][:16], int(memory["id"][:8], 16) >> 8) for memory in memories]
        assert made[0] == made[1]


@pytest.mark.parametrize("chat", [OWN, TOGETHER])
def test_whoever_has_alice_say_something_is_not_told_whether_she_said_it_elsewhere(
    mallory: httpx.Client, world: httpx.Client, database: Database, chat: str
) -> None:
    # the one made by the key for some chats, the other known to the bot with Alice in it
    tell(world, TOGETHER, ALICE, MALLORY)
    talk = Talk(database)
    talk.say(0, TRUE, chat=ChatIn(chat_id=PRIVATE, kind="direct"), who="Alice", sender_id=ALICE)
    talk.learn()
    [known] = world.get("/v1/memories", params={"type": "fact"}).json()["memories"]
    world.patch(f"/v1/memories/{known['id']}", json={"importance": 9, "metadata": {"kept": "by hand"}})
    past = "UPDATE memories SET created_at = '2026-03-05', access_count = 3, last_accessed_at = now()"
    rows(database, past)
    with confined(world, chat) as holder:
        forge(holder, chat)
        talk.learn()
        told_of_both(holder, chat)


def test_the_log_of_what_was_shown_tells_it_nothing_of_other_chats(world: httpx.Client) -> None:
    own = "Their wine is port."
    remember(world, own, COUPLE)
    tell(world, {"chat_id": "tg:elsewhere", "kind": "group"}, ALICE, BOB)
    for content, learned_in in (
        ("Their wine is old port.", "tg:elsewhere"),
        ("Her wine is port, too.", None),
    ):
        remember(world, content, learned_in)
    asked = {"chat_id": COUPLE, "query": "Which wine is theirs?", "user_id": ALICE}
    served = world.post("/v1/context", json=asked | {"parameters": {"memories": 50}}).json()
    ids = {m["content"]: m["id"] for m in world.get("/v1/memories").json()["memories"]}
    used = [f"memory:{i}" for i in ids.values()]
    answer = {"answer": "Port.", "used": used}
    assert world.post(f"/v1/contexts/{served['context_id']}/answer", json=answer).status_code == 200
    logs = []
    with confined(world, COUPLE) as holder:
        for reader in (world, holder):
            [logged] = reader.get("/v1/queries", params={"chat_id": COUPLE}).json()["queries"]
            logs.append({item for item in logged["shown"] if item.startswith("memory:")})
    assert f"memory:{ids[own]}" in logs[1] < logs[0]
    assert set(logged["used"]) == logs[1]
    # nor how much there was of it
    assert "memory" not in logged["tokens"] | logged["chars"]
    assert logged["used_tokens"] == sum(logged["tokens"].values())


def test_what_is_written_by_hand_elsewhere_changes_nothing_of_what_was_forged(
    mallory: httpx.Client, world: httpx.Client, database: Database
) -> None:
    tell(mallory, OWN, ALICE)
    forge(mallory, OWN)
    Talk(database).learn()
    for learned_in in (PRIVATE, COUPLE, None):
        remember(world, "Alice: pin 5518.", learned_in)
    told_of_both(mallory, OWN)
    # it is theirs of each of these chats, and known there
    for chat in (PRIVATE, COUPLE):
        assert PIN in shown(world, chat)


def test_the_tools_of_language_models_see_no_more(mallory: httpx.Client) -> None:
    tell(mallory, {"chat_id": OWN, "kind": "direct"}, ALICE)
    for tool, arguments in (
        ("recall", {"chat_id": OWN, "query": QUESTION, "user_id": ALICE}),
        ("search", {"chat_id": OWN, "query": QUESTION}),
        ("about", {"user_id": ALICE, "chat_id": OWN}),
    ):
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"} | {
            "params": {"name": tool, "arguments": arguments}
        }
        answer = mallory.post("/mcp", json=call, headers={"Accept": "application/json, text/event-stream"})
        assert not any(secret in answer.text for secret in SECRETS), tool


PEOPLE = st.frozensets(st.sampled_from(["ann", "bob", "zoe"]))
CHATS = st.sampled_from(["here", "there", "private", "elsewhere"])
PLACES = st.lists(
    st.builds(
        Place,
        chat_id=CHATS,
        kind=st.sampled_from(["group", "direct", "thread"]),
        persons=PEOPLE,
        others=st.booleans(),
    ),
    max_size=4,
)


@given(
    st.sampled_from(["strict", "chat", "tenant"]),
    st.builds(Place, chat_id=st.just("here"), kind=st.just("direct"), persons=PEOPLE),
    PLACES,
    st.frozensets(CHATS),
)
def test_nothing_is_shown_of_a_chat_that_the_key_may_not_name(
    policy: Any, here: Place, places: list[Place], only: frozenset[str]
) -> None:
    confined = visible(policy, here, places, only)
    assert confined.chats <= only | {"here"}
    assert not confined.everywhere
    assert not confined.shows(None)
    assert confined.shows(None, scope="organization")
    # nor of its own chats what a key for all chats would not be shown
    assert {chat for chat in confined.chats if not visible(policy, here, places).shows(chat)} == set()
