"""What each profile promises: a minimum of likeness, narrowing and its fallback, memories by their scope."""

import itertools
import math
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.memories.statements import remember
from pipeline.recall.ask.profiles import PROFILES, Parameters, parameters_of
from pipeline.recall.choose.wording import wording_of
from pipeline.recall.rank.similarity import Scale
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.errors import InvalidInput
from schemas.memory.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery, parse_payload
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.recall import asking
from tests.recall.found import lines
from tests.recall.test_context import CHAT, DAY, do_all

ENGLISH = wording_of("english")


ask = partial(asking.ask, chat_id=CHAT.chat_id, explain=True, include_history=False)


def reasons(found: Context, kind: str = "message") -> dict[str, str]:
    """Why each thing of a kind is not shown, by its id."""
    return {each.id: each.reason for each in found.explain.dropped if each.kind == kind}


# A minimum of likeness


def test_the_average_is_half_as_alike_as_the_best_and_nothing_is_said_of_what_has_no_vector() -> None:
    scale = Scale.of([0.7, 0.9, None], 0.7)
    assert [scale.similarity(cosine) for cosine in (0.7, 0.9, None)] == [0.5, 1.0, None]
    assert Scale.of([0.7], 0.7).similarity(0.7) is None
    assert Scale.of([None], 0.0).similarity(0.7) is None


def test_a_rag_leaves_out_what_is_less_alike_and_says_so(filled: Database, settings: Settings) -> None:
    question = "the plumber from Almada"
    found = ask(filled, settings, question, profile="rag", fill=True)
    told = [text.partition(": ")[2] for text in lines(found, "exchanges")]
    assert any("plumber from Almada" in text for text in told)
    assert "coffee is ready" not in told
    assert "below_minimum" in reasons(found).values()
    assert "less similar than 0.7" in {each.detail for each in found.explain.dropped}
    without = ask(filled, settings, question, profile="rag", fill=True, parameters={"min_similarity": 0})
    assert len(lines(without, "exchanges")) == 5 > len(told)
    assert not any("less similar" in each.detail for each in without.explain.dropped)


def test_what_is_quoted_or_has_no_vector_yet_is_never_too_unlike(
    filled: Database, settings: Settings
) -> None:
    strict = {"min_similarity": 1.0, "messages": 12, "neighbours": 0}
    found = ask(filled, settings, 'who said "count me in"?', parameters=strict)
    assert lines(found, "exchanges") == ["Bob: count me in"]
    accept.accept(filled, TENANT, CHAT, [message(3 * DAY, "the parrot is called Vasco", id="fresh")])
    assert any(
        "Vasco" in each for each in lines(ask(filled, settings, "parrot", parameters=strict), "exchanges")
    )
    by_word = ask(filled, settings, "boat", profile="rag", embedder=None)
    assert by_word.degraded
    assert not any("less similar" in each.detail for each in by_word.explain.dropped)


# Narrowing


def test_a_contextual_context_shows_the_sessions_that_fit_and_no_other(
    filled: Database, settings: Settings
) -> None:
    question = "who wants to go on a boat trip?"
    found = ask(filled, settings, question, profile="contextual", parameters={"sessions": 1})
    assert not found.fell_back
    best = found.explain.sessions[0]
    assert best.components.keys() == {"best_message", "words", "meaning", "affinity", "time"}
    assert best.score == pytest.approx(sum(best.components.values()), abs=1e-5)
    told = " ".join(lines(found, "exchanges"))
    assert "boat" in told
    assert "plumber" not in told
    assert ENGLISH.earlier in found.text
    assert {hit.session_id for hit in found.explain.messages} == {best.session_id}


def test_where_no_session_fits_the_whole_chat_is_shown_and_labelled(
    filled: Database, settings: Settings
) -> None:
    question = "zeppelin submarine plumber xylophone"
    found = ask(filled, settings, question, profile="contextual")
    assert found.fell_back
    assert found.explain.fell_back
    assert ENGLISH.anywhere in found.text
    assert not lines(found, "related")
    assert any("plumber" in text for text in lines(found, "exchanges"))
    assert set(reasons(found, "session").values()) == {"below_minimum"}
    assert not found.degraded
    # the other profiles do not narrow, and nothing of it is said
    balanced = ask(filled, settings, question, parameters={"messages": 5})
    assert not balanced.fell_back
    assert ENGLISH.earlier in balanced.text


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
    assert {"at most 3 agent_memories", "at most 5 user_memories"} <= {each.detail for each in left_out}
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


def changed(profile: str = "rag", **parameters: object) -> Parameters:
    """What a profile is once a question has changed these."""
    asked = {"chat_id": CHAT.chat_id, "query": "谁修锅炉？", "profile": profile, "parameters": parameters}
    return parameters_of(parse_payload(ContextQuery, asked), Settings(_env_file=None))


@pytest.mark.parametrize(("name", "most"), OPEN.items())
def test_a_question_changes_what_is_open_within_its_limits_and_nothing_else(name: str, most: int) -> None:
    for profile, base in PROFILES.items():
        assert changed(profile, **{name: most}) == replace(base, **{name: most})
        assert changed(profile, **{name: None}) == base
    for wrong in (most + 1, -1):
        with pytest.raises(
            InvalidInput, match=rf"^parameters\.{name}: .* {most if wrong > 0 else 0}$"
        ) as refused:
            changed(**{name: wrong})
        assert refused.value.field == f"parameters.{name}"


@pytest.mark.parametrize(
    "name", ["words", "date", "history_yields", "session_chars", "min_importance", "日期"]
)
def test_weights_and_what_a_profile_alone_decides_are_refused_with_the_names_that_are_open(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        changed(messages=3, **{name: 0})
    assert str(refused.value) == f"parameters: a question cannot change {name!r}, only {', '.join(OPEN)}"
    assert refused.value.field == "parameters"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -float("inf"), 10**400, True, "5", []])
@pytest.mark.parametrize("name", ["memories", "min_similarity"])
def test_what_is_no_number_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=rf"^parameters\.{name}: "):
        changed(**{name: value})


def test_no_number_breaks_a_context(filled: Database, settings: Settings) -> None:
    for name, value in itertools.product(OPEN, (0, 1e-300, 1)):
        try:
            found = ask(filled, settings, "the boat in May?", parameters={name: value})
        except InvalidInput:
            continue
        assert all(math.isfinite(hit.score) for hit in found.explain.messages), (name, value)


def thread(database: Database, chat_id: str, key: str, day: int) -> int:
    """A session of this key; its id."""
    said = [
        message(day * DAY + n, f"step {n} of {key}", id=f"{key}-{day}-{n}", session_key=key) for n in range(4)
    ]
    accept.accept(database, TENANT, ChatIn(chat_id=chat_id), said)
    do_all(
        database,
        SessionPolicy.of(Settings(_env_file=None, summarize_debounce_seconds=0)),
        Policy(batch=100, lease_seconds=60, max_attempts=3),
    )
    with database.tenant(TENANT) as connection:
        found = connection.scalar(
            text("""
                SELECT id FROM conversation_sessions WHERE chat_id = :chat AND session_key = :key
                ORDER BY started_at DESC LIMIT 1
            """),
            {"chat": chat_id, "key": key},
        )
    assert isinstance(found, int)
    return found


def note(database: Database, session_id: int, content: str, **fields: object) -> None:
    given = {"scope": "session", "session_id": session_id, "type": "scratchpad", "content": content} | fields
    assert remember(database, TENANT, MemoryIn.model_validate(given)).outcome == "new"


def test_a_threads_own_memories_are_shown_in_it_and_those_of_others_are_not(
    database: Database, settings: Settings
) -> None:
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
    later = datetime.now(UTC) + timedelta(hours=1)
    note(database, trip, "Ask about the dog.", expires_at=later.isoformat())

    def known_in(profile: str = "agent", **fields: object) -> set[str]:
        found = ask(database, settings, "Which ferry?", profile=profile, **fields)
        return {re.sub(r", since [^\]]+", "", line) for line in lines(found, "memories")}

    of_trip = {
        "- [session] The ferry is booked.",
        "- [session] The ferry leaves at nine.",
        "- [session] Ask about the dog.",
    }
    assert known_in(session_key="trip") == of_trip
    assert known_in("balanced", session_key="trip") == of_trip
    assert known_in(session_key="tax") == {"- [session] The form is missing."}
    # over all the chat's sessions, as its messages
    assert known_in() == of_trip | {"- [session] The form is missing."}


def test_a_group_bot_is_configured_by_its_settings_and_other_profiles_are_not(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parameters(profile: str) -> dict[str, float]:
        why = ask(filled, Settings(_env_file=None), "boat", profile=profile).explain
        return why.parameters

    unset = {profile: parameters(profile) for profile in PROFILES}
    assert (unset["group"]["sessions"], unset["group"]["history_tokens"]) == (3, 800)
    monkeypatch.setenv("CONTEXT_SESSION_MAX_RETRIEVED", "5")
    monkeypatch.setenv("BACKSCROLL_CONTEXT_HISTORY_TOKENS", "120")
    changed = {profile: parameters(profile) for profile in PROFILES}
    for profile in ("balanced", "group"):
        assert changed[profile] == unset[profile] | {"sessions": 5, "history_tokens": 120}
    assert all(changed[name] == unset[name] for name in ("ask", "rag", "agent", "contextual"))
    asked = ask(filled, Settings(_env_file=None), "boat", profile="group", parameters={"sessions": 1}).explain
    assert asked.parameters["sessions"] == 1


# What an explanation says of scores
