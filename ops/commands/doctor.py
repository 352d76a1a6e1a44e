"""`backscroll doctor`: check everything that can be wrong with a deployment, and fix what is safe to fix."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import SecretStr
from rich.text import Text

from migrations import REVISION
from ops import connection
from ops.console import rendering
from ops.console.command import Call, command
from ops.exit_codes import ERRORS_FOUND, NOT_AS_IT_SHOULD_BE
from ops.local import stack
from pipeline.clients.factory import (
    default_provider,
    make_embedder,
    make_embedder_for,
    make_learning_model,
    make_summary_model,
    settings_for,
    space_by_name,
)
from pipeline.clients.openai_chat import LEARNED
from pipeline.operations.doctor.diagnose import diagnose, failing, not_running
from pipeline.operations.doctor.facts import Facts, Finding, Login, Severity, worst
from schemas.errors import BackscrollError, DatabaseUnavailable, SettingsError
from schemas.kinds import KINDS
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pipeline.operations.doctor.collect import Sample
    from pipeline.store.connections.database import Database


app = typer.Typer(rich_markup_mode="markdown")

EXIT_CODES: dict[Severity | None, int] = {None: 0, "warning": NOT_AS_IT_SHOULD_BE, "error": ERRORS_FOUND}
URLS = ("database_url", "database_read_url", "maintenance_database_url", "owner_database_url")


@command(app, "backscroll doctor --fix")
def doctor(
    call: Call,
    fix: Annotated[
        bool,
        "Recount drifted counters, cut differing chats into sessions again, make missing jobs due, delete "
        "vectors without a row, and as owner mend indexes. Nothing else.",
    ] = False,
    model: Annotated[
        bool,
        "Load the embedding model and try it, and ask the language model, if there is one, for the summary of a short "
        "chat, as it is asked for those of sessions. Such a call is not in `backscroll cost`.",
    ] = False,
    chats: Annotated[int, typer.Option(min=0, help="Chats of each tenant to check closely.")] = 100,
) -> None:
    """Find what is wrong: what it is, why it matters, and what to do.

    Checks connections and roles, migrations and tenant isolation, pgvector and indexes, embedding spaces, Redis and
    the workers, clocks, late and dead jobs, and what is stored: sessions, counters, vectors. Of all tenants if
    **BACKSCROLL_MAINTENANCE_DATABASE_URL** is set and no `--tenant` is given. It uses no network but Postgres and
    Redis; with `--model` the embedding model is looked for on this machine, or its server asked, and so is a language
    model; it says what their endpoints turned out not to take of OpenAI's protocol. It judges by the settings that the
    running processes have: it says what these send to another machine, what waits for a setting that is off, and how
    this shell differs.
    """
    from pipeline.operations.deployment import KEPT, Deployment
    from pipeline.operations.doctor import collect
    from pipeline.store.connections.database import Database

    try:
        own = connection.open_stack(call.data_dir, call.tenant)
    except DatabaseUnavailable as error:
        _end(call, [not_running(str(error))], [], {"sent": []})
        return
    done: list[str] = []
    running, spaces, sent = Deployment(), list[EmbeddingSpace](), list[str]()
    with (
        closing(Database.from_settings(own, with_replica=True)) as database,
        rendering.patience("Checking everything", shown=not call.as_json),
    ):
        # where these cannot be read a finding says why
        with suppress(BackscrollError):
            with database.tenant("") as as_nobody:
                running = Deployment.of(as_nobody)
            spaces = collect.written_spaces(database)
        settings = running.over(own)
        with suppress(BackscrollError):
            sent = running.sent(own, spaces)
        facts, sample = examine(database, settings, call.tenant, model=model, chats=chats)
        if fix:
            done = list(_fix(database, settings, facts))
            facts, _ = examine(database, settings, call.tenant, model=model, chats=chats, sample=sample)
    up = stack.visible(own.data_dir)
    findings = [*failing(up.failing if up else {}), *diagnose(facts)]
    versions = [f"Postgres {facts.server.release}"] if facts.server else []
    versions += [facts.broker.release] if facts.broker and facts.broker.release else []
    waiting = [jobs.waiting for jobs in facts.jobs if jobs.waiting]
    if model and settings.openai_api_key == KEPT:
        sent.append(
            "What needs the deployment's BACKSCROLL_OPENAI_API_KEY was not tried: this shell does not have it"
        )
    said = {"versions": versions, "settings": running.notes(own), "sent": sent, "waiting": waiting}
    _end(call, findings, done, said)


def examine(
    database: Database,
    settings: Settings,
    tenant: str | None,
    *,
    model: bool,
    chats: int,
    sample: Sample | None = None,
) -> tuple[Facts, Sample | None]:
    """Collect all facts, and which chats were checked closely: those of `sample` if given."""
    from pipeline.ingest.sessionize import SessionPolicy
    from pipeline.operations.deployment import KEPT
    from pipeline.operations.doctor import collect
    from workers import broker

    urls = {name: getattr(settings, name) for name in URLS}
    logins = {
        name: _login(f"BACKSCROLL_{name.upper()}", url) for name, url in urls.items() if url is not None
    }
    broker_facts = broker.facts(settings, broker.look(settings, workers=True))
    tried = list(logins.values())
    if logins["database_url"].problem:
        return Facts(logins=tried, broker=broker_facts), sample
    server = collect.server(database)
    skew = collect.skew_seconds(database)
    is_lacking = server.is_lacking or (server.migration or "") < REVISION
    if is_lacking or server.read_only or any(login.unbound for login in tried):
        # the other checks lock, and read tables that may be missing or that a login may not read
        return Facts(logins=tried, server=server, broker=broker_facts, skew_seconds=skew), sample
    maintenance = logins.get("maintenance_database_url")
    everybody = tenant is None and maintenance is not None and not maintenance.problem
    scope = None if everybody else settings.tenant
    rules = SessionPolicy.of(settings)
    tenant_ids = collect.tenants(database, scope)
    sample = sample or collect.choose(database, tenant_ids, chats)
    stored, active = collect.written_spaces(database), collect.active_space(database)
    embedder, problem = _embedder(settings, stored)
    if problem is None and active is not None:
        _, problem = _embedder(settings_for(active, settings), stored)
    ask = model and settings.openai_api_key != KEPT
    if problem is None and (ask or (model and (active or embedder).provider != "openai")):
        problem = _try_model(settings, active)
    return Facts(
        logins=tried,
        server=server,
        replica_problem=collect.replica_problem(database),
        spaces=collect.embedding_spaces(database, embedder, tenant_ids, problem, everybody=everybody),
        broker=broker_facts,
        skew_seconds=skew,
        jobs=collect.late_jobs(database, scope),
        stopped_providers=collect.stopped_providers(database),
        tenants=list(collect.tenant_data(database, sample, rules)),
        summary_problem=_summary_problem(settings, ask=ask),
    ), sample


def _login(setting: str, url: SecretStr) -> Login:
    """Try a URL; the owner of the tables need not be bound by row-level security."""
    from sqlalchemy.exc import InterfaceError, OperationalError

    from pipeline.store.connections import trips
    from pipeline.store.connections.engines import driver_of
    from pipeline.store.operations import checks

    try:
        with _connected(url) as opened:
            role, unbound = checks.login(opened)
            pooled = trips.is_pooled(driver_of(opened))
    except (OperationalError, InterfaceError) as error:
        return Login(setting=setting, problem=(str(error.orig).strip().splitlines() or [""])[0])
    return Login(setting=setting, role=role, unbound=unbound, pooled=pooled)


@contextmanager
def _connected(url: SecretStr) -> Iterator[Connection]:
    """Connect in autocommit, as the role of this URL."""
    from ops.local import migrate

    with (
        migrate.connected(url.get_secret_value()) as engine,
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as opened,
    ):
        yield opened


def _embedder(settings: Settings, stored: Sequence[EmbeddingSpace]) -> tuple[EmbeddingSpace, str | None]:
    """Find the space of the settings' embedder, or why there is no such embedder; loads no model."""
    left = [space for space in stored if settings.embedding_provider in {None, space.provider}]
    if settings.embedding_model is None and left:
        # they leave the model to the database
        return left[0], None
    try:
        return space_by_name(settings, stored), None
    except SettingsError as error:
        provider, model = settings.embedding_provider or default_provider(), settings.embedding_model or ""
        return EmbeddingSpace(provider=provider, model=model, dimensions=0), str(error)


def _try_model(settings: Settings, active: EmbeddingSpace | None) -> str | None:
    """Say why the embedding model cannot be used; None if it made a vector of the right size."""
    # no network is used; the libraries read these when they are imported
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    try:
        client = make_embedder(settings) if active is None else make_embedder_for(active, settings)
        (vector,) = client.embed_documents(["hello"])
    except (BackscrollError, ImportError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    if len(vector) != client.space.dimensions:
        return f"it makes vectors of {len(vector)} dimensions, its space has {client.space.dimensions}"
    return None


def _summary_problem(settings: Settings, *, ask: bool) -> str | None:
    """Say why a language model that is to summarize or to learn cannot be asked; None if each can, or there is none."""
    from pipeline.enrich.summaries.summarizers import try_model

    try:
        clients = {
            str(client.model): client
            for client in (make_summary_model(settings), make_learning_model(settings))
            if client
        }
        for client in clients.values() if ask else ():
            with closing(client):
                try_model(
                    client,
                    timeout_seconds=settings.session_summary_timeout_seconds,
                    context_tokens=settings.session_summary_context_tokens,
                    answer_tokens=settings.llm_answer_tokens,
                )
    except BackscrollError as error:
        return str(error)
    return None


def _fix(database: Database, settings: Settings, facts: Facts) -> Iterator[str]:
    """Fix what is safe to fix; yields what was done."""
    from pipeline.ingest.sessionize import SessionPolicy
    from pipeline.operations.doctor import collect

    for tenant in facts.tenants:
        yield from collect.mend_tenant(database, tenant, SessionPolicy.of(settings))
    server, spaces = facts.server, facts.spaces
    invalid = server.invalid_indexes if server else ()
    missing, unread = (spaces.missing_indexes, spaces.unread_indexes) if spaces else ((), ())
    if (invalid or missing or unread) and settings.owner_database_url is not None:
        with _connected(settings.owner_database_url) as opened:
            yield from collect.mend_indexes(opened, missing, unread)
    if facts.tenants:
        connection.wake(settings, *KINDS)


def _end(call: Call, findings: list[Finding], done: list[str], said: dict[str, list[str]]) -> None:
    """Print what was found and fixed and what else is to be said; exit with the code of the worst finding."""
    said = {"learned": LEARNED.sentences(), **said}
    shown = [Text(f"Fixed: {rendering.plain(sentence)}.", style="green") for sentence in done]
    for finding in findings:
        label, colour = ("Error", "red") if finding.severity == "error" else ("Warning", "yellow")
        shown += [
            Text.assemble((f"{label}: ", f"bold {colour}"), rendering.plain(finding.what)),
            Text(f"  {finding.why}", style="dim"),
            Text(f"  → {finding.remedy}"),
            Text(f"  See {finding.page}", style="dim"),
        ]
    worst_of_all = worst(findings)
    call.answer(
        {"worst": worst_of_all, "findings": findings, "mended": done, **said},
        *shown,
        *(Text(rendering.plain(f"{sentence}.")) for sentences in said.values() for sentence in sentences),
        *([] if findings else [Text("Nothing is wrong.", style="green")]),
    )
    raise typer.Exit(EXIT_CODES[worst_of_all])
