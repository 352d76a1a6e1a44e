"""Run all checks on the facts, in the order in which their findings are shown; `check_servers` has those of servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pipeline.clients.known_models import knows
from pipeline.operations.doctor import check_servers
from pipeline.operations.doctor.facts import Facts, Finding, Spaces, TenantData, error, warning
from schemas.bots import LOST
from schemas.languages import spoken

if TYPE_CHECKING:
    from pipeline.operations.status import JobCounts


def diagnose(facts: Facts) -> list[Finding]:
    """Return all findings, errors first."""
    findings = [
        *check_servers.logins(facts.logins),
        *(check_servers.postgres(facts.server) if facts.server else ()),
        *check_servers.replica(facts.replica_problem),
        *(check_embedding_spaces(facts.spaces) if facts.spaces else ()),
        *(check_languages(facts.spaces) if facts.spaces else ()),
        *(check_servers.broker(facts.broker) if facts.broker else ()),
        *check_summaries(facts.summary_problem),
        *check_servers.clock(facts.skew_seconds or 0.0),
        *(finding for jobs in facts.jobs for finding in check_late_jobs(jobs)),
        *check_providers(facts.stopped_providers),
        *(finding for tenant in facts.tenants for finding in check_tenant(tenant)),
    ]
    return sorted(findings, key=lambda finding: finding.severity != "error")


def failing(reasons: Mapping[str, str]) -> list[Finding]:
    """Report processes that end again and again, with the reason of each."""
    lost = "What it does is not done, though it is started again every 30 s."
    return [error("process", reason, lost, "Mend that; its log says more.") for reason in reasons.values()]


def not_running(problem: str) -> Finding:
    """Report that neither configured nor embedded servers run."""
    return error(
        "connection",
        problem.partition(": ")[0],
        "Nothing is accepted, done or found, and there is nothing to look at.",
        "Start it with `backscroll up`, name its folder by --data-dir, or set BACKSCROLL_DATABASE_URL and "
        "BACKSCROLL_REDIS_URL to servers of your own.",
    )


CHATS_SHOWN = 3
# The sweep wakes workers every few seconds: a job due for so long has no worker.
LATE_WARNING_SECONDS = 300.0
LATE_ERROR_SECONDS = 3600.0


def check_summaries(problem: str | None) -> Iterator[Finding]:
    if problem is not None:
        yield error(
            "summaries",
            f"the language model that is to summarize does not: {problem}",
            "Sessions wait for it and are found by their messages only, or their summaries are extracted without it.",
            "Correct BACKSCROLL_SESSION_SUMMARY_MODEL, BACKSCROLL_OPENAI_… or BACKSCROLL_LLM_ANSWER_TOKENS, or set "
            "the model to extractive-v1.",
        )


def check_late_jobs(jobs: JobCounts) -> Iterator[Finding]:
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


def check_providers(stopped: Sequence[str]) -> Iterator[Finding]:
    for provider in stopped:
        yield warning(
            "provider",
            f"{provider} did not answer the last calls to a language model",
            "No worker calls it until one call has tried whether it does again; what needs it waits.",
            "See `backscroll status` for when that is, and the provider's own status and limits.",
        )


def check_tenant(tenant: TenantData) -> Iterator[Finding]:
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
    if tenant.unmasked:
        what = f"{tenant.unmasked:,} of the oldest texts {whose} hold credentials, such as keys, tokens or card numbers"
        remedy = "Run `backscroll backfills start secrets`, which masks them for good; `--dry-run` counts them all."
        yield warning("secrets", what, "They are found and shown, though new ones are masked.", remedy)
    lost = [(key, n) for key, n in tenant.left_out.items() if n and key[1] in LOST]
    if lost:
        counted = ", ".join(f"{n:,} {reason} from {platform}" for (platform, reason), n in lost)
        what, why = f"{counted} {whose} since yesterday", "Words of people are not stored, or not whole."
        yield warning(
            "left-out", what, why, "See `left_out` in the log, and in the answers that name the items."
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:CHATS_SHOWN]) + (" …" if len(names) > CHATS_SHOWN else "")


LANGUAGES_SHOWN = 3
# Messages in languages unknown to the model, of those whose language is known, that are worth a warning.
FOREIGN_SHARE, FOREIGN_MESSAGES = 0.1, 100


def check_embedding_spaces(spaces: Spaces) -> Iterator[Finding]:
    if spaces.active is None:
        why = "Nothing is embedded or found by meaning."
        remedy = "Run `backscroll db upgrade` with the settings of the embedder."
        yield error("space", "no embedding space is active", why, remedy)
    elif spaces.embedder_status == "other":
        yield warning(
            "space",
            f"the settings give {spaces.embedder} other prefixes or dimensions than its vectors were made with",
            "Messages and questions are embedded as the stored vectors were; the settings change nothing.",
            "Leave them out, or fill a space of another name by `backscroll spaces add`.",
        )
    elif spaces.embedder_status != "building" and spaces.embedder != spaces.active:
        yield warning(
            "space",
            f"the settings name the embedder {spaces.embedder}, and searches compare in {spaces.active}",
            "Messages and questions are embedded by the model of the active space; the settings change nothing.",
            "Set BACKSCROLL_EMBEDDING_PROVIDER and _MODEL to that, or change the model by `backscroll spaces add`.",
        )
    if spaces.model_problem:
        yield error(
            "model",
            f"the embedding model cannot be used: {spaces.model_problem}",
            "Messages wait for their vectors, and search goes by keywords.",
            "Check that the model is installed or its provider answers, and that its settings are right; one "
            "of the hub is fetched at its first use, not by the doctor.",
        )
    if spaces.languages and not spaces.is_calibrated:
        yield warning(
            "calibration",
            f"the similarities of {spaces.active} were not measured",
            "Whether a chat knows what it is asked, and which memories answer, is judged by words only.",
            "It is measured with the next vectors; if this stays, see `space_not_calibrated` in the workers' log.",
        )
    fix = "Run `backscroll doctor --fix` with BACKSCROLL_OWNER_DATABASE_URL set: "
    if spaces.missing_indexes:
        yield warning(
            "index",
            f"a chat or library of documents is large: its index {', '.join(spaces.missing_indexes)} is missing",
            "Searches compare with all of its vectors, which takes longer the more it has.",
            fix + "it is built beside running work.",
            fixable=True,
        )
    if spaces.unread_indexes:
        yield warning(
            "index",
            f"no chat or library of documents is large enough for the index {', '.join(spaces.unread_indexes)}",
            "It slows down embedding, and no search reads it.",
            fix + "it is dropped.",
            fixable=True,
        )
    for name, count in spaces.retired_vectors.items():
        if count:
            yield warning(
                "retired",
                f"the retired space {name} has {count:,} vectors",
                "They take room, and no search reads them.",
                f"Run `backscroll spaces retire {name}`, which deletes them.",
            )


def check_languages(spaces: Spaces) -> Iterator[Finding]:
    known = {
        language: count
        for language, count in spaces.languages.items()
        if knows(spaces.model, language) is not None
    }
    foreign = Counter({name: count for name, count in known.items() if not knows(spaces.model, name)})
    if foreign.total() >= max(FOREIGN_MESSAGES, FOREIGN_SHARE * sum(known.values())):
        share = foreign.total() / sum(known.values())
        named = [spoken(language) for language, _ in foreign.most_common(LANGUAGES_SHOWN)]
        yield warning(
            "languages",
            f"{share:.0%} of the messages are in chats in {'; '.join(named)}, which {spaces.model} does not know",
            "They are found by their words, and hardly by their meaning.",
            "Change to the multilingual model by `backscroll spaces add multilingual`; if a chat is in another "
            "language than that, `backscroll chats language CHAT LANGUAGE` says so.",
        )
