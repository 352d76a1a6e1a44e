"""What each profile promises: a minimum of likeness, narrowing and its fallback, memories by their scope."""

import itertools
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from pipeline.ingest import accept
from pipeline.jobs.runner import Policy
from pipeline.memories.statements import remember
from pipeline.recall.choose.lines import wording_of
from pipeline.recall.profiles import PROFILES, Parameters, parameters_of
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.errors import InvalidInput
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery, parse_payload
from schemas.settings import Settings
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.contexts import CHAT, DAY, do_all
from tests.harness.pipeline import rows
from tests.recall import asking
from tests.recall.found import lines

ENGLISH = wording_of("english")


ask = partial(asking.ask, chat_id=CHAT.chat_id, explain=True, include_history=False)


def reasons(found: Context, kind: str = "message") -> dict[str, str]:
    """Why each thing of a kind is not shown, by its id."""
    return {each.id: each.reason for each in found.explain.dropped if each.kind == kind}


# A minimum of likeness


def test_a_rag_leaves_out_what_is_worth_less_than_it_is_told_and_says_so(
    filled: Database, settings: Settings
) -> None:
    question = "the plumber from Almada"
    least = {"parameters": {"min_similarity": 0.9}}
    found = ask(filled, settings, question, profile="rag", fill=True, **least)
    told = [text.partition(": ")[2] for text in lines(found, "exchanges")]
    assert any("plumber from Almada" in text for text in told)
    assert "coffee is ready" not in told
    assert "below_minimum" in reasons(found).values()
    assert any(each.detail.endswith("below 0.9") for each in found.explain.dropped)
    without = ask(filled, settings, question, profile="rag", fill=True)
    assert len(lines(without, "exchanges")) == 5 > len(told)
    assert not any("below 0.9" in each.detail for each in without.explain.dropped)


# Narrowing


def test_where_no_session_fits_the_whole_chat_is_shown(filled: Database, settings: Settings) -> None:
    question = "zeppelin submarine xylophone"
    # few messages cannot tell what a chat does not know
    assert not ask(filled, settings, question, profile="contextual").fell_back
    likely = {"profile": "contextual", "parameters": {"min_session_fit": 0.5}}
    found = ask(filled, settings, question, **likely)
    assert found.fell_back
    assert ENGLISH.anywhere in found.text
    assert not lines(found, "related")
    assert lines(found, "exchanges")
    assert set(reasons(found, "session").values()) == {"below_minimum"}
    # the other profiles do not narrow, and one session with evidence is enough
    assert not ask(filled, settings, question, parameters={"messages": 5}).fell_back
    assert not ask(filled, settings, "the plumber from Almada", **likely).fell_back


def test_an_explanation_has_the_constants_of_its_profile(filled: Database, settings: Settings) -> None:
    own = {
        "group": {
            "blend_ranking",
            "blend_recency",
            "blend_overlap",
            "blend_half_life_hours",
            "blend_session",
        },
        "rag": {"fading"},
        "contextual": {"best_message"},
    }
    usual = ask(filled, settings, "the plumber").explain.constants.keys()
    for profile, names in own.items():
        explained = ask(filled, settings, "the plumber", profile=profile).explain
        assert explained.constants.keys() - usual == names
        for each in explained.messages:
            assert sum(each.components.values()) == pytest.approx(each.score, abs=1e-4)


# Memories by their scope


def test_an_agent_gets_so_many_memories_of_each_scope(database: Database, settings: Settings) -> None:
    session = thread(database, CHAT.chat_id, "harvest", 1)
    owners: dict[str, dict[str, object]] = {
        "session": {"session_id": session},
        "user": {"user_id": "test:Ann"},
        "agent": {"agent_id": "bot"},
        "organization": {},
    }
    for scope, number in itertools.product(owners, range(12)):
        content = f"{scope} pineapple no{number}"
        given = {"scope": scope, "type": "fact", "content": content} | owners[scope]
        assert remember(database, TENANT, MemoryIn.model_validate(given)).outcome == "new"
    found = ask(
        database,
        settings,
        "Which pineapple?",
        profile="agent",
        user_id="test:Ann",
        agent_id="bot",
        budget_tokens=8000,
    )
    shown = [line.partition("] ")[2].partition(" ")[0] for line in lines(found, "memories")]
    assert Counter(shown) == {"session": 10, "user": 5, "agent": 3, "organization": 5}
    left_out = [each for each in found.explain.dropped if each.kind == "memory"]
    assert len(shown) + len(left_out) == len(found.explain.memories)


# What a question may change


OPEN = {
    "history_tokens": 100_000,
    "sessions": 100,
    "messages": 100,
    "messages_per_session": 100,
    "neighbours": 100,
    "related": 100,
    "memories": 100,
    "documents": 100,
    "entity_hops": 1,
    "min_similarity": 1,
    "min_session_fit": 1,
    "daily_decay": 1,
    "mmr_lambda": 1,
}


def changed(profile: str, **parameters: object) -> Parameters:
    """What a profile is once a question has changed these."""
    asked = {"chat_id": CHAT.chat_id, "query": "谁修锅炉？", "profile": profile, "parameters": parameters}
    return parameters_of(parse_payload(ContextQuery, asked), Settings(_env_file=None))


@pytest.mark.parametrize(("name", "most"), OPEN.items())
def test_a_question_changes_what_is_open_within_its_limits_and_nothing_else(name: str, most: int) -> None:
    for profile, base in PROFILES.items():
        assert changed(profile, **{name: most}) == replace(base, **{name: most})
        assert changed(profile, **{name: None}) == base
    for wrong in (most + 1, -1, float("nan"), 10**400, True, "5"):
        with pytest.raises(InvalidInput, match=rf"^parameters\.{name}: ") as refused:
            changed("rag", **{name: wrong})
        assert refused.value.field == f"parameters.{name}"


def test_settings_configure_a_group_bot_and_no_other_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    unset = {profile: changed(profile) for profile in PROFILES}
    monkeypatch.setenv("CONTEXT_SESSION_MAX_RETRIEVED", "5")
    monkeypatch.setenv("BACKSCROLL_CONTEXT_HISTORY_TOKENS", "120")
    for profile, before in unset.items():
        configured = {"sessions": 5, "history_tokens": 120} if profile in ("balanced", "group") else {}
        assert changed(profile) == replace(before, **configured)
    assert changed("group", sessions=1).sessions == 1


def thread(database: Database, chat_id: str, key: str, day: int) -> int:
    """A session of this key; its id."""
    said = [
        message(day * DAY + n, f"step {n} of {key}", id=f"{key}-{day}-{n}", session_key=key) for n in range(4)
    ]
    accept.accept(database, TENANT, ChatIn(chat_id=chat_id), said)
    do_all(database, SESSION_POLICY, Policy(batch=100, lease_seconds=60, max_attempts=3))
    of_chat = f"chat_id = '{chat_id}' AND session_key = '{key}'"
    latest = f"SELECT id FROM conversation_sessions WHERE {of_chat} ORDER BY started_at DESC LIMIT 1"
    ((found,),) = rows(database, latest)
    return int(str(found))


def note(database: Database, session_id: int, content: str, **fields: object) -> None:
    given = {"scope": "session", "session_id": session_id, "type": "scratchpad", "content": content} | fields
    assert remember(database, TENANT, MemoryIn.model_validate(given)).outcome == "new"


def test_a_thread_shows_its_own_memories_and_no_others(database: Database, settings: Settings) -> None:
    trip, tax = thread(database, CHAT.chat_id, "trip", 1), thread(database, CHAT.chat_id, "tax", 2)
    again, elsewhere = (
        thread(database, CHAT.chat_id, "trip", 3),
        thread(database, "test:elsewhere", "trip", 1),
    )
    note(database, trip, "The ferry is booked.")
    note(database, again, "The ferry leaves at nine.")
    note(database, tax, "The form is missing.")
    note(database, elsewhere, "A stranger's ferry.")
    gone = datetime.now(UTC) - timedelta(seconds=1)
    note(database, trip, "The ferry is not booked yet.", expires_at=gone.isoformat())

    def known_in(profile: str = "agent", **fields: object) -> set[str]:
        found = ask(database, settings, "Which ferry?", profile=profile, **fields)
        return {re.sub(r", since [^\]]+", "", line) for line in lines(found, "memories")}

    of_trip = {"- [session] The ferry is booked.", "- [session] The ferry leaves at nine."}
    assert known_in(session_key="trip") == of_trip
    assert known_in("balanced", session_key="trip") == of_trip
    assert known_in(session_key="tax") == {"- [session] The form is missing."}
    # over all the chat's sessions, as its messages
    assert known_in() == of_trip | {"- [session] The form is missing."}
