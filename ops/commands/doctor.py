"""`backscroll doctor`: looks at everything that can be wrong with a deployment, and mends what is safe to mend."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import SecretStr
from rich.text import Text

from ops import connection as stack
from ops.commands import broker, rendering
from ops.commands.hints import opened_hints
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from ops.exit_codes import ERRORS_FOUND, NOT_AS_IT_SHOULD_BE
from pipeline.clients.factory import default_provider, make_embedder, space_by_name
from pipeline.operations.doctor.broker import Broker
from pipeline.operations.doctor.facts import Facts, diagnose
from pipeline.operations.doctor.finding import Finding, Severity, worst
from pipeline.operations.doctor.postgres import Login, not_running
from schemas.errors import BackscrollError, DatabaseUnavailable, SettingsError
from schemas.kinds import KINDS
from schemas.revision import REVISION
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pipeline.operations.doctor.collect import Sample
    from pipeline.store.database import Database

app = typer.Typer(rich_markup_mode="markdown")

EXIT_CODES: dict[Severity | None, int] = {None: 0, "warning": NOT_AS_IT_SHOULD_BE, "error": ERRORS_FOUND}
_REDIS_SECONDS = 2.0


@app.command(
    epilog="**Exit codes:** 0 nothing found · 5 warnings · 6 errors; with `--fix` of what is left. "
    "**Examples:** backscroll doctor · backscroll doctor --fix · backscroll doctor --model --json"
)
def doctor(
    fix: Annotated[
        bool,
        typer.Option(
            "--fix",
            help="Recount drifted counters, cut differing chats into sessions anew, owe missing work, delete "
            "vectors without a row, and as owner rebuild invalid indexes, build the one that a large chat needs and "
            "drop it where none does. Nothing else.",
        ),
    ] = False,
    model: Annotated[bool, typer.Option("--model", help="Load the embedding model and try it.")] = False,
    chats: Annotated[
        int, typer.Option(min=0, help="Look at so many chats of each tenant closely, at random.")
    ] = 100,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Find what is wrong: what it is, why it matters, and what to do.

    Looks at connections and roles, migrations and walls, pgvector and indexes, embedding spaces, Redis and the
    workers, clocks, late and dead work, and at what is stored: sessions, counters, vectors. Of all tenants where
    **BACKSCROLL_MAINTENANCE_DATABASE_URL** is set and no `--tenant` is given. It asks no network but Postgres and
    Redis; with `--model` the model is looked for on this machine.
    """
    from pipeline.store.database import Database

    try:
        settings = stack.open_stack(data_dir, tenant)
    except DatabaseUnavailable as error:
        _end([not_running(str(error))], [], as_json=as_json)
        return
    database = Database.from_settings(settings)
    done: list[str] = []
    try:
        with rendering.patience("Looking at everything", shown=not as_json):
            facts, sample = examine(database, settings, tenant, model=model, chats=chats)
            if fix:
                done = list(_mend(database, settings, facts))
                facts, _ = examine(database, settings, tenant, model=model, chats=chats, sample=sample)
    finally:
        database.close()
    _end(diagnose(facts), done, as_json=as_json)


def examine(
    database: Database,
    settings: Settings,
    tenant: str | None,
    *,
    model: bool,
    chats: int,
    sample: Sample | None = None,
) -> tuple[Facts, Sample | None]:
    """Collect all facts, and which chats were looked at closely: those of `sample` if given."""
    from pipeline.ingest.policy import Rules
    from pipeline.operations.doctor import collect

    logins = {name: _login(name, url) for name, url in _urls(settings)}
    asked = _ask_redis(settings)
    told = list(logins.values())
    if logins["BACKSCROLL_DATABASE_URL"].problem:
        return Facts(logins=told, broker=asked), sample
    server = collect.server(database)
    skew = collect.skew_seconds(database)
    if (server.migration or "") < REVISION or any(login.unbound for login in told):
        # what follows reads tables that may not be there, or may not read them
        return Facts(logins=told, server=server, broker=asked, skew_seconds=skew), sample
    maintenance = logins.get("BACKSCROLL_MAINTENANCE_DATABASE_URL")
    everybody = tenant is None and maintenance is not None and not maintenance.problem
    scope = None if everybody else settings.tenant
    rules = Rules.of(settings)
    tenant_ids = collect.tenants(database, scope)
    sample = sample or collect.choose(database, tenant_ids, chats)
    embedder, problem = _embedder(settings, collect.written_spaces(database))
    if model and problem is None:
        problem = _try_model(settings)
    return Facts(
        logins=told,
        server=server,
        spaces=collect.embedding(database, embedder, tenant_ids, problem, everybody=everybody),
        broker=asked,
        skew_seconds=skew,
        work=collect.owed(database, scope),
        tenants=list(collect.stored(database, sample, rules)),
    ), sample


def _urls(settings: Settings) -> Iterator[tuple[str, SecretStr]]:
    for name in ("database_url", "maintenance_database_url", "owner_database_url"):
        url = getattr(settings, name)
        if url is not None:
            yield f"BACKSCROLL_{name.upper()}", url


def _login(setting: str, url: SecretStr) -> Login:
    """Try a URL; the owner of the tables need not be bound by their walls."""
    from sqlalchemy.exc import InterfaceError, OperationalError

    from pipeline.operations.doctor import collect

    try:
        with _connected(url) as connection:
            role, unbound = collect.login(connection)
    except (OperationalError, InterfaceError) as error:
        return Login(setting=setting, problem=(str(error.orig).strip().splitlines() or [""])[0])
    return Login(setting=setting, role=role, unbound=unbound)


@contextmanager
def _connected(url: SecretStr) -> Iterator[Connection]:
    """A connection in autocommit, as the role of this URL."""
    from sqlalchemy import create_engine, pool

    driver = "postgresql+psycopg://" + url.get_secret_value().partition("://")[2]
    engine = create_engine(driver, poolclass=pool.NullPool, connect_args={"connect_timeout": 5})
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            yield connection
    finally:
        engine.dispose()


def _ask_redis(settings: Settings) -> Broker:
    """Redis' own settings, and the queues that no worker answers for."""
    import redis
    from redis.exceptions import RedisError, ResponseError

    asked = broker.look(settings, workers=True)
    if asked.problem is not None or settings.redis_url is None:
        return Broker(problem=asked.problem)
    client = redis.Redis.from_url(
        settings.redis_url.get_secret_value(), socket_timeout=_REDIS_SECONDS, decode_responses=True
    )
    try:
        memory = client.info("memory")
        try:
            # one by one: before Redis 7 there is no asking for two
            said = client.config_get("appendonly") | client.config_get("maxmemory-policy")
        except ResponseError:
            # hosted servers often do not let anybody ask
            said = {}
    except RedisError as error:
        return Broker(problem=str(error))
    finally:
        client.close()
    serving = asked.workers or {}
    return Broker(
        appendonly=said.get("appendonly"),
        policy=said.get("maxmemory-policy"),
        used_bytes=int(memory["used_memory"]),
        max_bytes=int(memory["maxmemory"]),
        unserved={name: length for name, length in asked.queues.items() if not serving.get(name)},
        refused=asked.refused,
        clocks=asked.clocks,
    )


def _embedder(settings: Settings, stored: Sequence[EmbeddingSpace]) -> tuple[EmbeddingSpace, str | None]:
    """The space of the embedder that the settings name, and why there is no such embedder; loads no model."""
    try:
        return space_by_name(settings, stored), None
    except SettingsError as error:
        provider = settings.embedding_provider or default_provider()
        return EmbeddingSpace(provider=provider, model=settings.embedding_model or "", dimensions=0), str(
            error
        )


def _try_model(settings: Settings) -> str | None:
    """Why the embedding model cannot be used; None: it made a vector of the size that it should.

    Asks no network: a model that is not on this machine is told at once.
    """
    # read by the libraries when they are imported
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    try:
        client = make_embedder(settings)
        (vector,) = client.embed_documents(["hello"])
    except (BackscrollError, ImportError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    if len(vector) != client.space.dimensions:
        return f"it makes vectors of {len(vector)} dimensions, its space has {client.space.dimensions}"
    return None


def _mend(database: Database, settings: Settings, facts: Facts) -> Iterator[str]:
    """Mend what is safe to mend; what was done."""
    from pipeline.ingest.policy import Rules
    from pipeline.operations.doctor import collect

    for tenant in facts.tenants:
        yield from collect.mend(database, tenant, Rules.of(settings))
    server, spaces = facts.server, facts.spaces
    invalid = server.invalid_indexes if server else ()
    missing, unread = (spaces.missing_indexes, spaces.unread_indexes) if spaces else ((), ())
    if (invalid or missing or unread) and settings.owner_database_url is not None:
        with _connected(settings.owner_database_url) as connection:
            yield from collect.mend_indexes(connection, missing, unread)
    if facts.tenants:
        with opened_hints(settings, rendering.err()) as hints:
            for kind in KINDS:
                hints.send(kind)


def _end(findings: list[Finding], done: list[str], *, as_json: bool) -> None:
    """Print what was found and done, and exit with the code of the worst."""
    worst_of_all = worst(findings)
    if as_json:
        rendering.print_json({"worst": worst_of_all, "findings": findings, "mended": done})
    else:
        console = rendering.out()
        for sentence in done:
            console.print(Text(f"Mended: {rendering.plain(sentence)}.", style="green"))
        for finding in findings:
            style = "bold red" if finding.severity == "error" else "bold yellow"
            label = "Error" if finding.severity == "error" else "Warning"
            console.print(Text.assemble((f"{label}: ", style), rendering.plain(finding.what)))
            console.print(Text(f"  {finding.why}", style="dim"))
            console.print(Text(f"  → {finding.remedy}"))
        if not findings:
            console.print(Text("All is well.", style="green"))
    raise typer.Exit(EXIT_CODES[worst_of_all])
