"""The weeks of a chat are rolled up from the summaries of their sessions, and change and go with them."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clients.protocols import Completion
from pipeline.context import build_context, query_log
from pipeline.enrich import rollups, summarize, summary_merging
from pipeline.enrich.protocols import Summarizer
from pipeline.enrich.summarizers import ExtractiveSummarizer, make_summarizer
from pipeline.enrich.summary_policy import SummaryPolicy
from pipeline.erasure import edits, forget
from pipeline.ingest import accept, chat_moves
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Handler, Policy
from pipeline.llm.gateway import Gateway
from pipeline.store.database import Database
from schemas.context import AnswerIn, Context
from schemas.forgetting import Subject
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.sessions import EXTRACTIVE, Summary
from schemas.settings import Settings
from tests.conftest import EPOCH, TENANT, message
from tests.llm.chat_models import ScriptedModel
from tests.test_pipeline import place, rows, run

CHAT = ChatIn(chat_id="test:1", title="One", time_zone="Europe/Lisbon")
DAY = 24 * 60
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


def roller(database: Database, client: Summarizer | None = None, *, enabled: bool = True) -> Handler:
    return rollups.roller(database, client or ExtractiveSummarizer(), version=1, enabled=enabled)


@pytest.fixture
def work(database: Database, rules: SessionPolicy, policy: Policy) -> Callable[..., int]:
    """Do everything that is due; how many weeks were looked at."""

    def do(client: Summarizer | None = None, *, enabled: bool = True) -> int:
        place(database, rules, policy)
        run(database, "summarize", summarizer(database), policy)
        return run(database, "rollup", roller(database, client, enabled=enabled), policy)

    return do


@pytest.fixture
def two_weeks(database: Database, work: Callable[..., int]) -> Database:
    """The boiler and the marina in one week, the roof in the next."""
    said = [*session(0, "boiler"), *session(2, "marina"), *session(8, "roof")]
    accept.accept(database, TENANT, CHAT, said)
    assert work() == 2
    return database


def asked(database: Database, question: str, as_of: datetime | None = None, **parameters: float) -> Context:
    query = ContextQuery(
        chat_id=CHAT.chat_id,
        user_id="test:ann",
        query=question,
        include_history=False,
        as_of=as_of,
        parameters=parameters or {"rollups": 1, "sessions": 0, "messages": 0},
    )
    return build_context(database, TENANT, query, embedder=None, settings=Settings(_env_file=None))


def block(context: Context) -> str:
    return next((each.text for each in context.blocks if each.kind == "rollups"), "")


def test_the_sessions_of_a_week_are_rolled_up_together(two_weeks: Database) -> None:
    assert rows(two_weeks, WEEKS) == [("2026-03-02", 2, EXTRACTIVE), ("2026-03-09", 1, EXTRACTIVE)]
    ((told,),) = rows(two_weeks, "SELECT search_text FROM rollups WHERE week = '2026-03-02'")
    assert "boiler" in str(told)
    assert "marina" in str(told)
    assert "roof" not in str(told)


def test_a_week_is_one_of_the_chat_s_own_clock(database: Database, work: Callable[..., int]) -> None:
    # 23:30 UTC on Sunday, 29 March, when Lisbon has summer time
    start = datetime(2026, 3, 29, 23, 30, tzinfo=UTC)
    late = [
        m.model_copy(update={"sent_at": start + timedelta(minutes=n)})
        for n, m in enumerate(session(0, "clock"))
    ]
    accept.accept(database, TENANT, CHAT, late)
    work()
    assert rows(database, WEEKS) == [("2026-03-30", 1, EXTRACTIVE)]


def test_the_week_that_is_running_waits_for_its_end(database: Database, work: Callable[..., int]) -> None:
    ((now,),) = rows(database, "SELECT now() - interval '1 hour'")
    assert isinstance(now, datetime)
    said = [
        m.model_copy(update={"sent_at": now + timedelta(minutes=n)})
        for n, m in enumerate(session(0, "boiler"))
    ]
    accept.accept(database, TENANT, CHAT, said)
    assert work() == 0
    ((left,),) = rows(database, "SELECT due_at > now() + interval '1 minute' FROM jobs WHERE kind = 'rollup'")
    assert left is True
    assert rows(database, WEEKS) == []


def test_a_session_that_comes_late_changes_its_week_and_no_other(
    two_weeks: Database, work: Callable[..., int]
) -> None:
    before = dict(rows(two_weeks, "SELECT week::text, created_at FROM rollups"))  # type: ignore[arg-type]
    accept.accept(two_weeks, TENANT, CHAT, session(4, "garden"))
    assert work() == 1
    after = dict(rows(two_weeks, "SELECT week::text, created_at FROM rollups"))  # type: ignore[arg-type]
    assert rows(two_weeks, WEEKS)[0] == ("2026-03-02", 3, EXTRACTIVE)
    assert after["2026-03-09"] == before["2026-03-09"]
    assert after["2026-03-02"] > before["2026-03-02"]  # type: ignore[operator]
    assert work() == 0


def test_nothing_is_rolled_up_where_it_is_off(database: Database, work: Callable[..., int]) -> None:
    accept.accept(database, TENANT, CHAT, session(0, "boiler"))
    assert work(enabled=False) == 1
    assert rows(database, WEEKS) == []


def test_a_language_model_combines_the_summaries(
    database: Database, work: Callable[..., int], two_weeks: Database
) -> None:
    model = ScriptedModel(answer(BOTH))
    client = make_summarizer("scripted", Gateway(database, model))
    accept.accept(two_weeks, TENANT, CHAT, session(4, "boiler"))
    work(client)
    ((summary, by),) = rows(two_weeks, "SELECT summary_text, model FROM rollups WHERE week = '2026-03-02'")
    assert (summary, by) == (BOTH, model.model)
    assert rows(two_weeks, "SELECT count(*) FROM llm_answers") == [(0,)]


def test_where_the_model_gives_no_usable_answer_a_week_is_extracted(
    two_weeks: Database, work: Callable[..., int]
) -> None:
    client = make_summarizer("scripted", Gateway(two_weeks, ScriptedModel(Completion(text="no"))))
    accept.accept(two_weeks, TENANT, CHAT, session(4, "garden"))
    work(client)
    assert rows(two_weeks, WEEKS)[0] == ("2026-03-02", 3, EXTRACTIVE)


def test_what_is_erased_while_a_model_writes_is_not_saved(
    two_weeks: Database, work: Callable[..., int], rules: SessionPolicy
) -> None:
    class Erasing(ScriptedModel):
        """Somebody deletes a message during the first call."""

        def complete(self, *given: Any, **more: Any) -> Completion:
            if not self.erased:
                self.erased = True
                edits.delete(two_weeks, TENANT, CHAT.chat_id, "2-0", rules)
            return super().complete(*given, **more)

        erased = False

    accept.accept(two_weeks, TENANT, CHAT, session(4, "boiler"))
    work(make_summarizer("scripted", Gateway(two_weeks, Erasing(answer(BOTH), answer(BOILER)))))
    saved = rows(two_weeks, "SELECT summary_text FROM rollups WHERE week = '2026-03-02'")
    assert saved == [(BOILER,)]


# Shown


def test_a_context_shows_the_weeks_that_fit_only_where_it_is_asked_to(two_weeks: Database) -> None:
    shown = block(asked(two_weeks, "what about the marina?"))
    assert shown.startswith("Earlier weeks:")
    assert "2 March 2026 – 8 March 2026" in shown
    assert "9 March" not in shown
    both = block(asked(two_weeks, "the marina and the roof?", rollups=5, messages=0))
    assert both.index("2 March 2026") < both.index("9 March 2026")
    assert block(asked(two_weeks, "what about the marina?", rollups=0)) == ""
    # of a week that was not over then nothing is told
    ((ended,),) = rows(two_weeks, "SELECT ended_at FROM rollups WHERE week = '2026-03-02'")
    assert isinstance(ended, datetime)
    assert block(asked(two_weeks, "what about the marina?", as_of=ended)) == ""
    assert "marina" in block(asked(two_weeks, "what about the marina?", as_of=ended + timedelta(days=7)))
    assert block(asked(two_weeks, "what about the marina?", rollups=1, rollup_share=0.01)) == ""
    assert block(asked(two_weeks, "what about the weather?")) == ""


# Erased


def test_a_deleted_message_clears_its_week_which_is_made_again_without_it(
    two_weeks: Database, work: Callable[..., int], rules: SessionPolicy
) -> None:
    context = asked(two_weeks, "what about the marina?")
    query_log.report(
        two_weeks, TENANT, context.context_id, AnswerIn(answer="It is broken."), Settings(_env_file=None)
    )
    for number in range(4):
        edits.delete(two_weeks, TENANT, CHAT.chat_id, f"2-{number}", rules)
    assert [week for week, *_ in rows(two_weeks, WEEKS)] == ["2026-03-09"]
    assert rows(two_weeks, "SELECT answer, shown FROM query_log") == [(None, {})]
    work()
    assert rows(two_weeks, WEEKS)[0] == ("2026-03-02", 1, EXTRACTIVE)
    assert rows(two_weeks, "SELECT count(*) FROM rollups WHERE search_text LIKE '%marina%'") == [(0,)]


@pytest.mark.parametrize("kind", ["user", "chat", "tenant"])
def test_forgetting_leaves_no_week_and_no_job_of_one(
    two_weeks: Database, rules: SessionPolicy, policy: Policy, kind: str
) -> None:
    subject = {"user": {"sender_id": "test:ann"}, "chat": {"chat_id": CHAT.chat_id}, "tenant": {}}[kind]
    accept.accept(two_weeks, TENANT, CHAT, session(4, "garden"))
    place(two_weeks, rules, policy)
    run(two_weeks, "summarize", summarizer(two_weeks), policy)
    forget.start(two_weeks, TENANT, Subject(kind=kind, **subject))  # type: ignore[arg-type]
    run(two_weeks, "forget", forget.forgetter(two_weeks, rules), policy)
    run(two_weeks, "rollup", roller(two_weeks), policy)
    assert rows(two_weeks, WEEKS) == []
    assert rows(two_weeks, "SELECT key FROM jobs WHERE kind = 'rollup'") == []


def test_a_moved_chat_has_its_weeks_rolled_up_again(
    two_weeks: Database, rules: SessionPolicy, policy: Policy
) -> None:
    chat_moves.start(two_weeks, TENANT, CHAT.chat_id, "test:moved")
    run(two_weeks, "forget", forget.forgetter(two_weeks, rules), policy)
    run(two_weeks, "rollup", roller(two_weeks), policy)
    assert [count for _, count, _ in rows(two_weeks, WEEKS)] == [2, 1]
    assert rows(two_weeks, "SELECT DISTINCT chat_id FROM rollups") == [("test:moved",)]


def test_a_week_whose_sessions_were_joined_into_the_week_before_has_none(
    two_weeks: Database, work: Callable[..., int]
) -> None:
    # Given a session late on Sunday and one early on Monday, then a message that joins them
    sunday = 20 + (5 * 60 + 20) / DAY
    accept.accept(two_weeks, TENANT, CHAT, [*session(sunday, "fence"), *session(sunday + 45 / DAY, "gate")])
    work()
    weeks = [week for week, *_ in rows(two_weeks, WEEKS)]
    assert weeks[-2:] == ["2026-03-16", "2026-03-23"]
    accept.accept(two_weeks, TENANT, CHAT, [message(sunday * DAY + 25, "and the hedge", id="joins")])
    work()
    assert [week for week, *_ in rows(two_weeks, WEEKS)] == weeks[:-1]


@given(
    st.lists(
        st.builds(
            Summary,
            summary=st.text("ab. \n!?é世", min_size=1, max_size=400).map(lambda each: each or "a"),
            topics=st.lists(st.sampled_from(["Boiler", "boiler", "roof"]), max_size=3),
            decisions=st.lists(st.text("ab", min_size=1, max_size=5), max_size=8),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_any_summaries_make_one(parts: Sequence[Summary]) -> None:
    combined = summary_merging.combine(parts)
    assert combined == summary_merging.combine(parts)
    assert combined.summary
    assert {each.lower() for each in combined.topics} <= {
        each.lower() for part in parts for each in part.topics
    }
    assert len({each.lower() for each in combined.topics}) == len(combined.topics)


def test_what_recurs_in_a_week_is_its_first_topic() -> None:
    topics = [["roof"], ["boiler", "cat"], ["Boiler"]]
    parts = [Summary(summary=f"Day {n}.", topics=of_day) for n, of_day in enumerate(topics)]
    assert [each.lower() for each in summary_merging.combine(parts).topics] == ["boiler", "roof", "cat"]
    assert EPOCH.weekday() == 0
