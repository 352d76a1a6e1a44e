"""Check derived data: late and dead jobs, language models, and each tenant's data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pipeline.operations.doctor.facts import TenantData
from pipeline.operations.doctor.finding import Finding, error, warning
from schemas.bots.events import LOST

if TYPE_CHECKING:
    from pipeline.operations.status import JobCounts

CHATS_SHOWN = 3
# The sweep wakes workers every few seconds: a job due for so long has no worker.
LATE_WARNING_SECONDS = 300.0
LATE_ERROR_SECONDS = 3600.0


def summaries(problem: str | None) -> Iterator[Finding]:
    if problem is not None:
        yield error(
            "summaries",
            f"the language model that is to summarize does not: {problem}",
            "Sessions wait for it and are found by their messages only, or their summaries are extracted without it.",
            "Correct BACKSCROLL_SESSION_SUMMARY_MODEL, BACKSCROLL_OPENAI_… or BACKSCROLL_LLM_ANSWER_TOKENS, or set "
            "the model to extractive-v1.",
        )


def late_jobs(jobs: JobCounts) -> Iterator[Finding]:
    if jobs.late_seconds > LATE_WARNING_SECONDS and not jobs.waits_for:
        yield Finding(
            "error" if jobs.late_seconds > LATE_ERROR_SECONDS else "warning",
            "late",
            f"{jobs.late:,} jobs of {jobs.kind} are due, the oldest for {jobs.late_seconds / 60:,.0f} min",
            "No worker does them, or not fast enough: memory lags behind the chats.",
            "Check that `backscroll beat` and the queue's workers run, and their logs; add workers.",
        )
    if jobs.dead:
        yield warning(
            "dead",
            f"{jobs.dead:,} jobs of {jobs.kind} were given up",
            "What they should have made is missing from memory.",
            f"See why: `backscroll jobs list --kind {jobs.kind}`; then `jobs replay` or `jobs drop`.",
        )


def providers(stopped: Sequence[str]) -> Iterator[Finding]:
    for provider in stopped:
        yield warning(
            "provider",
            f"{provider} did not answer the last calls to a language model",
            "No worker calls it until one call has tried whether it does again; what needs it waits.",
            "See `backscroll status` for when that is, and the provider's own status and limits.",
        )


def tenant(tenant: TenantData) -> Iterator[Finding]:
    whose, fix = f"of tenant {tenant.tenant_id}", "Run `backscroll doctor --fix`"
    fixable_error = partial(Finding, "error", fixable=True)
    if tenant.differing:
        yield fixable_error(
            "sessions",
            f"the sessions of {len(tenant.differing)} chats {whose} differ from what their messages say"
            f" ({_some(tenant.differing)})",
            "Messages belong to no session or to a wrong one, and summaries miss them.",
            f"{fix}, or `backscroll backfills start sessionize --chat …`.",
        )
    if tenant.drifted:
        what = f"the counters of {len(tenant.drifted)} chats {whose} have drifted ({_some(tenant.drifted)})"
        yield warning("counters", what, "Keyword ranking weighs words by them.", f"{fix}.", fixable=True)
    for kind, count in tenant.without_job.items():
        if count:
            what = f"{count:,} rows {whose} lack what {kind} makes, and have no job"
            yield fixable_error("missing", what, "They would never be in memory.", f"{fix}.")
    if tenant.orphans:
        what = f"{tenant.orphans:,} vectors {whose} have no row, or one that was merged into another"
        yield fixable_error("orphans", what, "Deleted text could still be found.", f"{fix}.")
    lost = [(key, n) for key, n in tenant.left_out.items() if n and key[1] in LOST]
    if lost:
        counted = ", ".join(f"{n:,} {reason} from {platform}" for (platform, reason), n in lost)
        what, why = f"{counted} {whose} since yesterday", "Words of people are not stored, or not whole."
        yield warning(
            "left-out", what, why, "See `left_out` in the log, and in the answers that name the items."
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:CHATS_SHOWN]) + (" …" if len(names) > CHATS_SHOWN else "")
