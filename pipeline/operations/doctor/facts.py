"""Diagnose everything that was collected in one moment."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.operations.doctor import broker, embedding, postgres, stored
from pipeline.operations.doctor.broker import Broker
from pipeline.operations.doctor.embedding import Spaces
from pipeline.operations.doctor.finding import Finding
from pipeline.operations.doctor.postgres import Login, Server
from pipeline.operations.doctor.stored import Tenant, Work


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All facts of one moment; what could not be looked at is None."""

    logins: Sequence[Login]
    server: Server | None = None
    spaces: Spaces | None = None
    broker: Broker | None = None
    # the database's clock minus this machine's
    skew_seconds: float | None = None
    work: Sequence[Work] = ()
    tenants: Sequence[Tenant] = ()


def diagnose(facts: Facts) -> list[Finding]:
    """Return all findings, errors first."""
    found = [
        *postgres.logins(facts.logins),
        *(postgres.server(facts.server) if facts.server else ()),
        *(embedding.findings(facts.spaces) if facts.spaces else ()),
        *(broker.findings(facts.broker) if facts.broker else ()),
        *postgres.clock(facts.skew_seconds),
        *stored.work(facts.work),
        *stored.tenants(facts.tenants),
    ]
    return sorted(found, key=lambda finding: finding.severity != "error")
