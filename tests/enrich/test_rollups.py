"""The weeks of a chat are rolled up from the summaries of their sessions, and change and go with them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from pipeline.clients.protocols import Completion
from pipeline.enrich.summaries import rollups, summarize
from pipeline.enrich.summaries.language_model import LanguageModelSummarizer
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
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
from tests.conftest import EPOCH, MIGRATED, SESSION_POLICY, TENANT, Templates, message
from tests.llm.chat_models import ScriptedModel, retold, summarizing
from tests.test_pipeline import place, rows, run

CHAT = ChatIn(chat_id="test:1", title="One", time_zone="Europe/Lisbon")
DAY = 24 * 60
# the two weeks of `two_weeks` are then "last month"
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


@pytest.fixture
def work(database: Database) -> Callable[..., int]:
    """Do everything that is due; how many weeks were looked at."""

    def do(client: LanguageModelSummarizer | None = None) -> int:
        place(database)
        run(database, "summarize", summarizer(database))
        return run(database, "rollup", roller(database, client))

    return do


def fill(database: Database) -> None:
    """The boiler and the marina in one week, the roof and the fence in the next."""
    said = [*session(0, "boiler"), *session(2, "marina"), *session(8, "roof"), *session(10, "fence")]
    accept.accept(database, TENANT, CHAT, said)
    place(database)
    run(database, "summarize", summarizer(database))
    assert run(database, "rollup", roller(database)) == 2


@pytest.fixture
def template(request: pytest.FixtureRequest, templates: Templates) -> str:
    return templates("weeks", fill) if "two_weeks" in request.fixturenames else MIGRATED


@pytest.fixture
def two_weeks(database: Database) -> Database:
    return database


def asked(database: Database, question: str, as_of: datetime | None = LATER, **parameters: float) -> Context:
    query = ContextQuery(
        chat_id=CHAT.chat_id,
        user_id="test:ann",
        query=question,
        include_history=False,
        as_of=as_of,
        parameters=parameters,
    )
    return build_context(database, TENANT, query, embedder=None, settings=Settings(_env_file=None))


def block(context: Context) -> str:
    return next((each.text for each in context.blocks if each.kind == "rollups"), "")


def test_the_sessions_of_a_week_are_rolled_up_together(two_weeks: Database) -> None:
    assert rows(two_weeks, WEEKS) == [("2026-03-02", 2, MODEL), ("2026-03-09", 2, MODEL)]
    ((told,),) = rows(two_weeks, "SELECT summary_text FROM rollups WHERE week = '2026-03-02'")
    assert "boiler" in str(told)
    assert "marina" in str(told)
    assert "roof" not in str(told)


def test_a_late_session_changes_its_week_alone(two_weeks: Database, work: Callable[..., int]) -> None:
    before = dict(rows(two_weeks, "SELECT week::text, created_at FROM rollups"))  # type: ignore[arg-type]
    accept.accept(two_weeks, TENANT, CHAT, session(4, "garden"))
    assert work() == 1
    after = dict(rows(two_weeks, "SELECT week::text, created_at FROM rollups"))  # type: ignore[arg-type]
    assert rows(two_weeks, WEEKS)[0] == ("2026-03-02", 3, MODEL)
    assert after["2026-03-09"] == before["2026-03-09"]
    assert after["2026-03-02"] > before["2026-03-02"]  # type: ignore[operator]
    assert work() == 0


def test_without_a_language_model_nothing_is_rolled_up(database: Database) -> None:
    assert not Settings(_env_file=None, rollups_enabled=True).rolls_up()
    assert Settings(_env_file=None, rollups_enabled=True, session_summary_model="gpt-4.1-mini").rolls_up()
    accept.accept(database, TENANT, CHAT, [*session(0, "boiler"), *session(2, "marina")])
    place(database)
    run(database, "summarize", summarizer(database))
    assert run(database, "rollup", rollups.roller(database, None, version=1)) == 1
    assert rows(database, WEEKS) == []


def test_what_is_erased_meanwhile_is_not_saved(two_weeks: Database, work: Callable[..., int]) -> None:
    class Erasing(ScriptedModel):
        """Somebody deletes a message during the first call."""

        def complete(self, *given: Any, **more: Any) -> Completion:
            if not self.erased:
                self.erased = True
                edits.delete(two_weeks, TENANT, CHAT.chat_id, "2-0", SESSION_POLICY)
            return super().complete(*given, **more)

        erased = False

    accept.accept(two_weeks, TENANT, CHAT, session(4, "boiler"))
    work(summarizing(two_weeks, Erasing(answer(BOTH), answer(BOILER))))
    saved = rows(two_weeks, "SELECT summary_text FROM rollups WHERE week = '2026-03-02'")
    assert saved == [(BOILER,)]


# Shown


@pytest.mark.parametrize(
    ("question", "mondays"),
    [
        ("what happened in March?", ["2 March 2026", "9 March 2026"]),
        ("what happened in the week of 4 March 2026?", ["2 March 2026"]),
        # its sessions say more of a day
        ("what happened on 5 March 2026?", []),
    ],
)
def test_a_context_shows_the_weeks_asked_for(two_weeks: Database, question: str, mondays: list[str]) -> None:
    shown = block(asked(two_weeks, question))
    assert [line.partition(" – ")[0] for line in shown.splitlines() if line.startswith("- ")] == [
        f"- {each}" for each in mondays
    ]
    assert shown.startswith("Earlier weeks:") == bool(mondays)


# Of what is stored


def test_a_backfill_rolls_up_the_weeks_that_are_stored(two_weeks: Database) -> None:
    # Given a chat whose weeks were summarized before rollups were switched on, and a week of one session
    rows(two_weeks, "DELETE FROM rollups RETURNING week")
    accept.accept(two_weeks, TENANT, CHAT, session(15, "garden"))
    place(two_weeks)
    only_sessions = SummaryPolicy(min_messages=4, version=1)
    run(two_weeks, "summarize", summarize.summarizer(two_weeks, ExtractiveSummarizer(), only_sessions))
    current = Current(rules=SESSION_POLICY, summary_version=1, min_messages=4, rolls_up=True)
    request = BackfillRequest(kind="rollup", chat_id=CHAT.chat_id)
    planned = backfill.plan(two_weeks, TENANT, request, current)
    assert (planned.rows, planned.missing) == (2, 2)
    backfill.start(two_weeks, TENANT, request, current)
    run(two_weeks, "backfill", backfill.backfiller(two_weeks, current))
    run(two_weeks, "rollup", roller(two_weeks))
    # Then they are there, and nothing is left to do
    assert [week for week, *_ in rows(two_weeks, WEEKS)] == ["2026-03-02", "2026-03-09"]
    assert backfill.plan(two_weeks, TENANT, request, current).missing == 0
    with pytest.raises(InvalidInput, match="language model"):
        backfill.plan(
            two_weeks, TENANT, request, Current(rules=SESSION_POLICY, summary_version=1, min_messages=4)
        )


# Erased


def test_a_deleted_message_has_its_week_made_again(two_weeks: Database, work: Callable[..., int]) -> None:
    context = asked(two_weeks, "what happened in March?")
    query_log.report(
        two_weeks, TENANT, context.context_id, AnswerIn(answer="It is broken."), Settings(_env_file=None)
    )
    accept.accept(two_weeks, TENANT, CHAT, session(4, "garden"))
    for number in range(4):
        edits.delete(two_weeks, TENANT, CHAT.chat_id, f"2-{number}", SESSION_POLICY)
    assert [week for week, *_ in rows(two_weeks, WEEKS)] == ["2026-03-09"]
    ((said, shown),) = rows(two_weeks, "SELECT answer, shown FROM query_log")
    assert said is None
    ((left,),) = rows(two_weeks, "SELECT 'rollup:' || id FROM rollups")
    assert {each for each in shown if each.startswith("rollup")} == {left}  # type: ignore[attr-defined]
    work()
    assert rows(two_weeks, WEEKS)[0] == ("2026-03-02", 2, MODEL)
    assert rows(two_weeks, "SELECT count(*) FROM rollups WHERE summary_text LIKE '%marina%'") == [(0,)]
