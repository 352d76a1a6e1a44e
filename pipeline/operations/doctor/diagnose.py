"""Run all checks on the facts, in the order in which their findings are shown."""

from collections.abc import Mapping

from pipeline.operations.doctor import check_data, check_servers, check_spaces
from pipeline.operations.doctor.facts import Facts
from pipeline.operations.doctor.finding import Finding, error


def diagnose(facts: Facts) -> list[Finding]:
    """Return all findings, errors first."""
    findings = [
        *check_servers.logins(facts.logins),
        *(check_servers.postgres(facts.server) if facts.server else ()),
        *(check_spaces.spaces(facts.spaces) if facts.spaces else ()),
        *(check_spaces.languages(facts.spaces) if facts.spaces else ()),
        *(check_servers.broker(facts.broker) if facts.broker else ()),
        *check_data.summaries(facts.summary_problem),
        *check_servers.clock(facts.skew_seconds or 0.0),
        *(finding for jobs in facts.jobs for finding in check_data.late_jobs(jobs)),
        *check_data.providers(facts.stopped_providers),
        *(finding for tenant in facts.tenants for finding in check_data.tenant(tenant)),
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
