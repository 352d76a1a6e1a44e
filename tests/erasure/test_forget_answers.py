"""Forgetting reaches what was asked, answered and remembered of it, and leaves what is not its to take."""

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.erasure import edits, forget
from pipeline.ingest import accept
from pipeline.memories.statements import remember
from pipeline.recall import build_context, query_log
from pipeline.store.connections.database import Database
from schemas.context import AnswerIn, Context
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import SESSION_POLICY, TENANT, Templates, message
from tests.harness.forgetting import everywhere, forgotten, work
from tests.harness.pipeline import embed_all, rows

GROUP = ChatIn(chat_id="test:group")
ZORA, ANN = "test:zora", "test:ann"
SECRET = "my zebrafish lives at Rua Augusta 20"
DEFAULTS = Settings(_env_file=None)
BY_ZORA = {"sender_id": ZORA, "sender_name": "Zora"}


def ask(database: Database, query: str, answer: str | None, **fields: object) -> Context:
    """A context, and its answer reported and remembered where somebody asked."""
    given = ContextQuery.model_validate({"chat_id": GROUP.chat_id, "query": query} | fields)
    context = build_context(database, TENANT, given, embedder=DeterministicEmbedder(), settings=DEFAULTS)
    if answer is not None:
        said = AnswerIn(answer=answer, remember="user_id" in fields)
        answered = query_log.report(database, TENANT, context.context_id, said, DEFAULTS)
        assert answered.outcome == "stored"
        assert (answered.memory_id is not None) == ("user_id" in fields)
    return context


def fill(database: Database) -> None:
    """A group where Zora told a secret; she, the bot for her, and Ann have asked about it."""
    talk = [message(n, f"the boiler shows E{40 + n}", id=f"g{n}") for n in range(6)]
    talk[3] = message(3, SECRET, id="g3", **BY_ZORA)
    talk[4] = message(4, "where does my zebrafish live?", id="g4", **BY_ZORA)
    accept.accept(database, TENANT, GROUP, talk)
    accept.accept(database, TENANT, GROUP, [message(600 + n, f"the tea is cold {n}") for n in range(5)])
    known = MemoryIn(scope="user", user_id=ZORA, content="keeps zebrafish", learned_in=GROUP.chat_id)
    remember(database, TENANT, known)
    work(database)
    # by Zora, by a bot that does not say for whom, and by Ann, who is shown what Zora said
    ask(database, "where do I live? zebrafish!", "At Rua Augusta 20, a zebrafish.", user_id=ZORA)
    ask(database, "where does my zebrafish live?", "At Rua Augusta 20.")
    ask(database, "who lives where?", "A zebrafish at Rua Augusta 20.", user_id=ANN)
    embed_all(database)
    # Ann is shown the memory of her first question, and of the second
    for again in ("and who lives where again?", "and again, who lives where?"):
        ask(database, again, "As I said, a zebrafish.", user_id=ANN, include_history=False)
    # what a provider said of what it was sent
    rows(
        database,
        """
                INSERT INTO jobs (tenant_id, kind, key, last_error)
                SELECT tenant_id, 'embed', key, 'cannot read: zebrafish'
                FROM (VALUES ('session:1'), ('message:4')) AS known (key) CROSS JOIN tenants
                UNION ALL
                SELECT tenant_id, 'embed', 'memory:' || id, 'cannot read: zebrafish' FROM memories
                ON CONFLICT (tenant_id, kind, key) DO UPDATE SET last_error = excluded.last_error
            """,
    )


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("asked", fill)


@pytest.fixture
def asked(database: Database) -> Database:
    return database


SUBJECTS = [
    {"kind": "user", "sender_id": ZORA},
    {"kind": "chat", "chat_id": GROUP.chat_id},
    {"kind": "tenant"},
]


@pytest.mark.parametrize("given", SUBJECTS, ids=lambda given: given["kind"])
def test_no_question_or_answer_about_what_is_forgotten_is_left(
    asked: Database, given: dict[str, str]
) -> None:
    subject = Subject.model_validate(given)
    assert {"query_log.query", "query_log.answer", "memories.content"} <= set(everywhere(asked, "zebrafish"))
    plan = forget.plan(asked, TENANT, subject)
    assert plan["queries"] == (1 if subject.kind == "user" else 5)
    receipt = forgotten(asked, subject)
    for _ in ("at once", "and when all is done again"):
        for words in ("zebrafish", "Rua Augusta", "zora"):
            assert everywhere(asked, words) == []
        work(asked)
    assert receipt.counts["queries"] == 5
    assert receipt.counts["memories"] == 5
    assert (receipt.counts["found_again_texts"], receipt.counts["found_again_vectors"]) == (0, 0)


def test_a_forgotten_message_takes_along_what_rests_on_it(asked: Database) -> None:
    forgotten(asked, Subject(kind="message", chat_id=GROUP.chat_id, external_id="g4"))
    forgotten(asked, Subject(kind="message", chat_id=GROUP.chat_id, external_id="g3"))
    assert everywhere(asked, "Rua Augusta") == []
    # what Zora and Ann asked in their own words stays, without answers
    assert rows(asked, "SELECT query, answer FROM query_log ORDER BY asked_at") == [
        ("where do I live? zebrafish!", None),
        (None, None),
        ("who lives where?", None),
        ("and who lives where again?", None),
        ("and again, who lives where?", None),
    ]
    assert rows(asked, "SELECT content FROM memories") == [("keeps zebrafish",)]
    # so do the figures
    assert rows(asked, "SELECT count(*) FROM query_log WHERE used_tokens > 0 AND redacted_at > asked_at") == [
        (5,)
    ]


def test_an_edit_takes_what_rests_on_the_old_text(asked: Database) -> None:
    edits.edit(asked, TENANT, edits.NewText(GROUP.chat_id, "g3", "I keep no animals", None), SESSION_POLICY)
    assert everywhere(asked, "Rua Augusta") == []


def test_forgetting_somebody_else_leaves_answers_alone(asked: Database) -> None:
    accept.accept(asked, TENANT, GROUP, [message(6000, "unheard", id="b", sender_id="test:bob")])
    work(asked)
    before = rows(asked, "SELECT query, answer, shown FROM query_log ORDER BY asked_at")
    receipt = forgotten(asked, Subject(kind="user", sender_id="test:bob"))
    assert receipt.counts["messages"] == 1
    assert rows(asked, "SELECT query, answer, shown FROM query_log ORDER BY asked_at") == before
