"""SQL of the shared state of a model's provider: whether it answers, and its recent load."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import number, run

_COLUMNS = "provider, failures, stops, stopped_at, stopped_until, probe_until, requests_until, tokens_until"
_LOCK = text(f"SELECT {_COLUMNS} FROM llm_providers WHERE provider = :provider FOR NO KEY UPDATE")
_INSERT = text("INSERT INTO llm_providers (provider) VALUES (:provider) ON CONFLICT DO NOTHING")
_SAVE = text("""
    UPDATE llm_providers SET failures = :failures, stops = :stops, stopped_at = :stopped_at,
        stopped_until = :stopped_until, probe_until = :probe_until, requests_until = :requests_until,
        tokens_until = :tokens_until
    WHERE provider = :provider
""")
_STOPPED = text(f"""
    SELECT {_COLUMNS} FROM llm_providers WHERE stopped_until > clock_timestamp() ORDER BY provider
""")
_STATES = text("""
    SELECT provider, coalesce(stopped_until > clock_timestamp(), false) FROM llm_providers
    ORDER BY provider LIMIT :at_most
""")
_FREE_EXPIRED = text("DELETE FROM llm_slots WHERE provider = :provider AND expires_at <= :now")
_COUNT_SLOTS = text("SELECT count(*) FROM llm_slots WHERE provider = :provider AND expires_at > :now")
_TAKE_SLOT = text("INSERT INTO llm_slots (provider, expires_at) VALUES (:provider, :expires_at) RETURNING id")


@dataclass(frozen=True, kw_only=True)
class Provider:
    """The state of a provider."""

    provider: str
    # calls without an answer, in a row
    failures: int = 0
    # how often calls were stopped since it last answered, and when they were last
    stops: int = 0
    stopped_at: datetime | None = None
    # no calls until then; afterwards one probe, until `probe_until` at the latest
    stopped_until: datetime | None = None
    probe_until: datetime | None = None
    # when the permitted rate will have covered the requests and tokens so far
    requests_until: datetime | None = None
    tokens_until: datetime | None = None


def lock(connection: Connection, provider: str) -> Provider:
    """Lock and return the state of a provider."""
    row = run(connection, _LOCK, provider=provider).one_or_none()
    if row is None:
        run(connection, _INSERT, provider=provider)
        row = run(connection, _LOCK, provider=provider).one()
    return Provider(**row._mapping)


def save(connection: Connection, known: Provider) -> None:
    """Save the state of a locked provider."""
    run(connection, _SAVE, **vars(known))


def stopped(connection: Connection) -> list[Provider]:
    """Return the providers that nobody calls at present."""
    return [Provider(**row._mapping) for row in run(connection, _STOPPED)]


def states(connection: Connection, at_most: int) -> dict[str, bool]:
    """Return of each provider whether nobody calls it at present."""
    return {str(provider): bool(stopped) for provider, stopped in run(connection, _STATES, at_most=at_most)}


def count_slots(connection: Connection, provider: str, now: datetime) -> int:
    """Count the running calls to a provider."""
    return number(connection, _COUNT_SLOTS, provider=provider, now=now)


def take_slot(connection: Connection, provider: str, now: datetime, expires_at: datetime) -> int:
    """Take a slot for a call about to be made; return its id."""
    run(connection, _FREE_EXPIRED, provider=provider, now=now)
    return number(connection, _TAKE_SLOT, provider=provider, expires_at=expires_at)


def free_slot(connection: Connection, slot: int) -> None:
    """Free the slot of a call that has ended."""
    run(connection, "DELETE FROM llm_slots WHERE id = :id", id=slot)
