"""Judge how well a language model summarizes sessions of the sample chats, through the shipped path."""

from dataclasses import dataclass
from itertools import islice

from rich.table import Table
from sqlalchemy import text

from ops.dev import shipped
from ops.dev.eval.samples import samples
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from schemas.errors import SettingsError
from schemas.sessions import EXTRACTIVE
from schemas.settings import Settings

SHOWN = 10
"""Summaries that are shown to be looked at."""
_DONE = text("""
    SELECT s.chat_id, s.summary_model, s.failure_reason, s.summary_text
    FROM conversation_sessions s WHERE s.summary_text IS NOT NULL ORDER BY s.chat_id, s.started_at
""")
_CALLS = text("""
    SELECT purpose, outcome, count(*) AS calls, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
        avg(latency_ms) / 1000 AS seconds
    FROM llm_calls GROUP BY purpose, outcome ORDER BY purpose DESC, outcome
""")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What became of the sessions."""

    model: str
    sessions: int
    # the model's answer was used, as it came or after the repair
    by_model: int
    # second calls, which show the model what was wrong with its answer
    repairs: int
    # no usable answer: extracted
    extracted: int
    calls: list[dict[str, float | str]]
    examples: list[dict[str, str | None]]


def judge(settings: Settings, sessions: int, say: Say) -> Judged:
    """Summarize this many sessions by the settings' model. Raises `SettingsError` where it is `extractive-v1`."""
    if settings.session_summary_model == EXTRACTIVE:
        raise SettingsError(
            "set BACKSCROLL_SESSION_SUMMARY_MODEL, and where it is: BACKSCROLL_OPENAI_BASE_URL"
        )
    given = settings.model_copy(update={"embedding_provider": "deterministic", "embedding_model": None})
    with shipped.temporary(given) as backscroll:
        for sample in samples():
            backscroll.accept(sample.chat, sample.messages)
        backscroll.run_all("ingest")
        done = 0
        while done < sessions and backscroll.run("summarize").claimed:
            done = _count(backscroll)
            say(f"{done} of {sessions} sessions")
        with backscroll.database.tenant(backscroll.tenant) as connection:
            rows = [dict(row) for row in connection.execute(_DONE).mappings()]
            calls = [dict(row) for row in connection.execute(_CALLS).mappings()]
    by_model = [row for row in rows if row["summary_model"] == settings.session_summary_model]
    return Judged(
        model=settings.session_summary_model,
        sessions=len(rows),
        by_model=len(by_model),
        repairs=sum(int(call["calls"]) for call in calls if call["purpose"] == "repair"),
        extracted=len(rows) - len(by_model),
        calls=[{name: _plain(value) for name, value in call.items()} for call in calls],
        examples=list(islice([*by_model, *(row for row in rows if row not in by_model)], SHOWN)),
    )


def as_tables(judged: Judged) -> list[Table]:
    """Show what became of the sessions, the calls, and some summaries."""
    share = judged.by_model / judged.sessions if judged.sessions else 0.0
    sessions = Table("sessions", "by the model", "repairs", "extracted", title=judged.model)
    sessions.add_row(
        str(judged.sessions), f"{judged.by_model} ({share:.0%})", str(judged.repairs), str(judged.extracted)
    )
    calls = Table("call", "outcome", "calls", "input tokens", "output tokens", "seconds each")
    for call in judged.calls:
        calls.add_row(
            *(f"{value:.1f}" if isinstance(value, float) else str(value) for value in call.values())
        )
    examples = Table("chat", "by", "summary", show_lines=True)
    for example in judged.examples:
        reason = f" ({example['failure_reason']})" if example["failure_reason"] else ""
        examples.add_row(example["chat_id"], f"{example['summary_model']}{reason}", example["summary_text"])
    return [sessions, calls, examples]


def _count(backscroll: Shipped) -> int:
    with backscroll.database.tenant(backscroll.tenant) as connection:
        return len(connection.execute(_DONE).all())


def _plain(value: object) -> float | str:
    if value is None or isinstance(value, str):
        return value or ""
    return float(value) if isinstance(value, float) else int(value)  # type: ignore[call-overload]
