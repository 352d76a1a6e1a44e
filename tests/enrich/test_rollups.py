"""The weeks of a chat are rolled up from the summaries of their sessions, and change and go with them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pipeline.clients.protocols import Completion
from pipeline.enrich.summaries import rollups, summarize
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer, LanguageModelSummarizer
from pipeline.enrich.summaries.summary_policy import SummaryPolicy
from pipeline.erasure import edits
from pipeline.ingest import accept
from pipeline.jobs.runner import Handler
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.recall import build_context, query_log
from pipeline.store.connections.database import Database
from schemas.backfills import BackfillRequest
from schemas.context import AnswerIn, Context
from schemas.errors import InvalidInput
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.sessions import Summary
from schemas.settings import Settings
from tests.conftest import EPOCH, SESSION_POLICY, TENANT, Templates, message
from tests.harness.pipeline import place, rows, run
from tests.llm.chat_models import ScriptedModel, retold, summarizing

CHAT = ChatIn(chat_id="test:1", title="One", time_zone="Europe/Lisbon")
DAY = 24 * 60
# the two weeks of `fill` are then "last month"
LATER, MODEL = EPOCH + timedelta(days=35), "gpt-4.1-mini"
WEEKS = "SELECT week::text, cardinality(session_ids), model FROM rollups ORDER BY week"

BOILER = "Ann said that the boiler is broken. She asked who repairs it. They decided to replace the boiler."
BOTH = f"{BOILER} Ann also said that the marina is broken. They decided to replace the marina."


def answer(summary: str) -> Completion:
    return Completion(text=Summary(summary=summary).model_dump_json())


def session(day: float, about: str) -> list[MessageIn]:
    """Four messages; EPOCH is a Monday."""
    said = [f"the {about} is broken", f"who repairs the {about}?", f"we replace the {about}", "ok, decided"]
    return [message(day * DAY + n, content, id=f"{day}-{n}") for n, content in enumerate(said)]


def summarizer(database: Database) -> Handler:
    return summarize.summarizer(
        database, ExtractiveSummarizer(), SummaryPolicy(min_messages=4, version=1, rollup_after_seconds=0.0)
    )


def roller(database: Database, client: LanguageModelSummarizer | None = None) -> Handler:
    return rollups.roller(database, client or summarizing(database, ScriptedModel(retold)), version=1)


def work(database: Database, client: LanguageModelSummarizer | None = None) -> int:
    """Do everything that is due; how many weeks were looked at."""
    place(database)
    run(database, "summarize", summarizer(database))
    return run(database, "rollup", roller(database, client))


def fill(database: Database) -> None:
    """The boiler and the marina in one week, the roof and the fence in the next."""
    said = [*session(0, "boiler"), *session(2, "marina"), *session(8, "roof"), *session(10, "fence")]
    accept.accept(database, TENANT, CHAT, said)
    assert work(database) == 2


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("weeks", fill)


def asked(database: Database, question: str) -> Context:
    given = {"chat_id": CHAT.chat_id, "user_id": "test:ann", "query": question, "include_history": False}
    query = ContextQuery.model_validate(given | {"as_of": LATER})
    return build_context(database, TENANT, query, embedder=None, settings=Settings(_env_file=None))


def block(context: Context) -> str:
    return next((each.text for each in context.blocks if each.kind == "rollups"), "")


def test_what_is_erased_meanwhile_is_not_saved(database: Database) -> None:
    class Erasing(ScriptedModel):
        """Somebody deletes a message during the first call."""

        def complete(self, *given: Any, **more: Any) -> Completion:
            if not self.erased:
                self.erased = True
                edits.delete(database, TENANT, CHAT.chat_id, "2-0", SESSION_POLICY)
            return super().complete(*given, **more)

        erased = False

    accept.accept(database, TENANT, CHAT, session(4, "boiler"))
    work(database, summarizing(database, Erasing(answer(BOTH), answer(BOILER))))
    saved = rows(database, "SELECT summary_text FROM rollups WHERE week = '2026-03-02'")
    assert saved == [(BOILER,)]


def test_a_context_shows_the_weeks_asked_for(database: Database) -> None:
    for question, mondays in (
        ("what happened in March?", ["2 March 2026", "9 March 2026"]),
        ("what happened in the week of 4 March 2026?", ["2 March 2026"]),
        # its sessions say more of a day
        ("what happened on 5 March 2026?", []),
    ):
        shown = block(asked(database, question))
        weeks = [line.partition(" – ")[0] for line in shown.splitlines() if line.startswith("- ")]
        assert weeks == [f"- {each}" for each in mondays]
        assert shown.startswith("Earlier weeks:") == bool(mondays)


def test_a_backfill_rolls_up_the_weeks_that_are_stored(database: Database) -> None:
    # Given a chat whose weeks were summarized before rollups were switched on, and a week of one session
    rows(database, "DELETE FROM rollups RETURNING week")
    accept.accept(database, TENANT, CHAT, session(15, "garden"))
    place(database)
    only_sessions = SummaryPolicy(min_messages=4, version=1)
    run(database, "summarize", summarize.summarizer(database, ExtractiveSummarizer(), only_sessions))
    current = Current(rules=SESSION_POLICY, summary_version=1, min_messages=4, rolls_up=True)
    request = BackfillRequest(kind="rollup", chat_id=CHAT.chat_id)
    planned = backfill.plan(database, TENANT, request, current)
    assert (planned.rows, planned.missing) == (2, 2)
    backfill.start(database, TENANT, request, current)
    run(database, "backfill", backfill.backfiller(database, current))
    run(database, "rollup", roller(database))
    # Then they are there, and nothing is left to do
    assert [week for week, *_ in rows(database, WEEKS)] == ["2026-03-02", "2026-03-09"]
    assert backfill.plan(database, TENANT, request, current).missing == 0
    # which takes a language model
    with pytest.raises(InvalidInput, match="language model"):
        backfill.plan(database, TENANT, request, replace(current, rolls_up=False))


def test_a_deleted_message_has_its_week_made_again(database: Database) -> None:
    assert rows(database, WEEKS) == [("2026-03-02", 2, MODEL), ("2026-03-09", 2, MODEL)]
    ((told,),) = rows(database, "SELECT summary_text FROM rollups WHERE week = '2026-03-02'")
    assert ("marina" in str(told), "roof" in str(told)) == (True, False)
    context = asked(database, "what happened in March?")
    query_log.report(
        database, TENANT, context.context_id, AnswerIn(answer="It is broken."), Settings(_env_file=None)
    )
    accept.accept(database, TENANT, CHAT, session(4, "garden"))
    for number in range(4):
        edits.delete(database, TENANT, CHAT.chat_id, f"2-{number}", SESSION_POLICY)
    assert [week for week, *_ in rows(database, WEEKS)] == ["2026-03-09"]
    ((said, shown),) = rows(database, "SELECT answer, shown FROM query_log")
    assert said is None
    ((left,),) = rows(database, "SELECT 'rollup:' || id FROM rollups")
    assert {each for each in shown if each.startswith("rollup")} == {left}  # type: ignore[attr-defined]
    # the other week is left as it was
    assert work(database) == 1
    assert rows(database, WEEKS)[0] == ("2026-03-02", 2, MODEL)
    assert rows(database, "SELECT count(*) FROM rollups WHERE summary_text LIKE '%marina%'") == [(0,)]
