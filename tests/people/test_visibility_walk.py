"""A walk through chats of every kind with a fact planted in each: who asks where sees what, and not a word more.

What is expected is written down by hand, chat by chat, and not worked out by the code that is tested.
"""

import itertools
from collections.abc import Iterator

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.memories import statements
from pipeline.people import identities, suppression
from pipeline.recall import build_context
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import message
from tests.harness.pipeline import embed_all, place

TENANT = "default"
DEFAULTS = Settings(_env_file=None)
EMBEDDER = DeterministicEmbedder()

# Ann writes by telegram:ann and by slack:ann; Dee is there, and will not be remembered. Everywhere the bot speaks.
CHATS = {
    "direct-ann": ("direct", ["telegram:ann"]),
    "direct-ann-at-work": ("direct", ["slack:ann"]),
    "direct-bob": ("direct", ["telegram:bob"]),
    "small": ("group", ["telegram:ann", "telegram:bob"]),
    "small-at-work": ("group", ["slack:ann", "telegram:bob"]),
    "large": ("group", ["telegram:ann", "telegram:bob", "telegram:cy"]),
    "with-dee": ("group", ["telegram:ann", "telegram:bob", "telegram:dee"]),
    "ann-alone": ("group", ["telegram:ann"]),
    "silent": ("group", []),
    "thread-ann": ("thread", ["slack:ann"]),
}
PERSON = {"ann": "ann", "telegram:ann": "ann", "slack:ann": "ann", "telegram:bob": "bob", "telegram:cy": "cy"}
ASKERS = [None, *PERSON, "telegram:zoe"]
GROUPS = {"small", "small-at-work", "with-dee"}

# Asked where, by whom (None: whoever is there anyway): the other chats whose memories are shown.
# An asker who is not named was never in any of them.
BOBS, LARGE = GROUPS | {"large"}, {"large"}
ANNS = BOBS | {"ann-alone"}
DIRECT, AT_WORK = ANNS | {"thread-ann", "direct-ann-at-work"}, ANNS | {"thread-ann", "direct-ann"}
SMALL, SMALL_AT_WORK = {"small-at-work", "with-dee", "large"}, {"small", "with-dee", "large"}
EXPECTED: dict[str, dict[str | None, set[str]]] = {
    "direct-ann": {None: DIRECT, "ann": DIRECT, "bob": BOBS, "cy": LARGE},
    "direct-ann-at-work": {None: AT_WORK, "ann": AT_WORK, "bob": BOBS, "cy": LARGE},
    "direct-bob": {None: BOBS, "bob": BOBS, "ann": BOBS, "cy": LARGE},
    "small": {None: SMALL, "ann": SMALL, "bob": SMALL, "cy": LARGE},
    "small-at-work": {None: SMALL_AT_WORK, "ann": SMALL_AT_WORK, "bob": SMALL_AT_WORK, "cy": LARGE},
    "large": {},
    "with-dee": {},
    "ann-alone": {None: BOBS, "ann": BOBS, "bob": BOBS, "cy": LARGE},
    "silent": {},
    "thread-ann": {None: ANNS, "ann": ANNS, "bob": BOBS, "cy": LARGE},
}
# While slack:ann is nobody's, she is somebody else, and was where she spoke alone.


def chat_id(name: str) -> str:
    return f"test:{name}"


def planted(name: str, owner: str) -> str:
    """A statement that is like no other; `owner` is the organization, the agent, or an id of somebody."""
    return f"pineapple secret of {{{owner}}} from {{{name}}}"


def said(name: str) -> str:
    return f"we talk about pineapple in [{name}]"


def plant(database: Database) -> None:
    suppression.remember_user(database, TENANT, "telegram:dee", remembered=False)
    for name, (kind, senders) in CHATS.items():
        chat = ChatIn.model_validate({"chat_id": chat_id(name), "kind": kind})
        bot = message(0, "Noted.", id="bot", sender_id="telegram:bot", sender_name="Bot", role="assistant")
        talk = [
            message(n, said(name), id=f"{n}", sender_id=sender, sender_name=sender)
            for n, sender in enumerate(senders, start=1)
        ]
        # the bot first, so that the chat is there before Dee speaks
        accept.accept(database, TENANT, chat, [bot])
        if talk:
            accept.accept(database, TENANT, chat, talk)
        owners: list[dict[str, str]] = [{"scope": "organization"}, {"scope": "agent", "agent_id": "bot"}]
        owners += [{"scope": "user", "user_id": user} for user in PERSON]
        for owner in owners:
            content = planted(name, owner.get("user_id") or owner["scope"])
            memory = MemoryIn.model_validate(owner | {"content": content, "learned_in": chat_id(name)})
            assert statements.remember(database, TENANT, memory).outcome == "new"
    for sender in ("telegram:ann", "slack:ann"):
        identities.link(database, TENANT, sender, "ann")


@pytest.fixture(scope="module")
def walked(shared: Database) -> Database:
    plant(shared)
    place(shared)
    embed_all(shared)
    return shared


def question(name: str, asker: str | None, **fields: object) -> dict[str, object]:
    return {
        "chat_id": chat_id(name),
        "query": "What is the pineapple secret?",
        "user_id": asker,
        "agent_id": "bot",
        "budget_tokens": 100_000,
        "parameters": {"memories": 100},
        "explain": True,
    } | fields


def allowed(name: str, asker: str | None) -> set[str]:
    """The planted statements that may be shown there to whoever asks."""
    person = PERSON.get(asker or "", asker)
    places = EXPECTED[name].get(person, set()) | {name}
    owners = {"organization", "agent"} | {each for each in PERSON if person and PERSON[each] == person}
    return {planted(place, owner) for place in places for owner in owners}


EVERYTHING = {planted(name, owner) for name in CHATS for owner in ("organization", "agent", *PERSON)}


def mentioned(answer: str) -> set[str]:
    """The planted statements that stand in an answer, or a part of one."""
    return {statement for statement in EVERYTHING if statement in answer}


def leaked_talk(answer: str, name: str) -> list[str]:
    return [other for other in CHATS if other != name and f"[{other}]" in answer]


WALK = list(itertools.product(CHATS, ASKERS))


def test_a_context_shows_what_they_may_see_by_meaning_and_by_keyword(walked: Database) -> None:
    for (name, asker), embedder in zip(WALK, itertools.cycle([EMBEDDER, None]), strict=False):
        query = ContextQuery.model_validate(question(name, asker))
        found = build_context(walked, TENANT, query, embedder=embedder, settings=DEFAULTS)
        answer = found.model_dump_json()
        assert mentioned(answer) == allowed(name, asker), (name, asker)
        assert leaked_talk(answer, name) == [], (name, asker)
        (hidden,) = [each for each in found.explain.dropped if each.reason == "audience"] or [None]
        of_asker = sum(1 for each in PERSON if asker and PERSON[each] == PERSON.get(asker))
        out = len(CHATS) * (2 + of_asker) - len(allowed(name, asker))
        # no more than how many there are, whatever was asked
        assert (hidden.id, hidden.detail.split()[0]) == ("", f"{out}") if hidden else out == 0


@pytest.fixture
def policy_of_tenant(walked: Database) -> Iterator[None]:
    yield
    with walked.tenant(TENANT) as connection:
        chats.set_tenant_setting(connection, TENANT, "audience", "strict")


@pytest.mark.usefixtures("policy_of_tenant")
@pytest.mark.parametrize(("policy", "where"), [("tenant", set(CHATS)), ("chat", {"small"}), ("?", {"small"})])
def test_a_tenant_may_show_more_or_less(walked: Database, policy: str, where: set[str]) -> None:
    with walked.tenant(TENANT) as connection:
        chats.set_tenant_setting(connection, TENANT, "audience", policy)
    query = ContextQuery.model_validate(question("small", "telegram:bob"))
    answer = build_context(walked, TENANT, query, embedder=None, settings=DEFAULTS).model_dump_json()
    owners = ("organization", "agent", "telegram:bob")
    assert mentioned(answer) == {planted(name, owner) for name in where for owner in owners}


def test_a_bot_that_knows_who_is_there_may_say_so(walked: Database) -> None:
    def shown_in(name: str, *members: str) -> set[str]:
        identities.set_members(walked, TENANT, chat_id(name), members)
        query = ContextQuery.model_validate(question(name, None))
        answer = build_context(walked, TENANT, query, embedder=None, settings=DEFAULTS).model_dump_json()
        return {name for name in CHATS if planted(name, "organization") in answer}

    try:
        # somebody who reads along and has never spoken
        assert shown_in("small", "telegram:ann", "telegram:bob", "telegram:cy") == {"small", "large"}
        # Dee has left; while she is there her name is not kept
        assert shown_in("with-dee", "telegram:ann", "telegram:dee") == {"with-dee"}
        assert identities.show_members(walked, TENANT, chat_id("with-dee")).unnamed
        left = {"with-dee", "small", "small-at-work", "large"}
        assert shown_in("with-dee", "telegram:ann", "telegram:bob") == left
        assert shown_in("silent", "telegram:bob", "slack:ann") == {"silent"} | left
    finally:
        for name in ("small", "with-dee", "silent"):
            identities.set_members(walked, TENANT, chat_id(name), CHATS[name][1])
