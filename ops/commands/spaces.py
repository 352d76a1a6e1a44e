"""Change the embedding model on live data, without a gap: add a space, compare, activate, roll back, retire.

An embedding space is a model and the vectors that it has made. While a new one is filled, messages get vectors in both
and searches go on in the old one; the switch is one step, and the old space stays written until it is retired.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops import connection
from ops.connection import Opened
from ops.console import rendering
from ops.console.command import Call, ListByDefault, YesOption, command
from schemas.backfills import BackfillRequest
from schemas.errors import InvalidInput, NotFound, SettingsError
from schemas.payloads import parse_payload
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, StoredSpace

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from pipeline.operations.spaces import Comparison, SpaceState


app = typer.Typer(help=__doc__, cls=ListByDefault, rich_markup_mode="markdown")

SpaceArgument = Annotated[str, typer.Argument(metavar="SPACE", help="As `spaces list` names it.")]
MEANT = {
    "building": "being filled",
    "active": "searched",
    "standby": "kept complete, to roll back to",
    "retired": "no longer written",
}


@command(app, "backscroll spaces list --json", name="list")
def list_(call: Call) -> None:
    """List the spaces with their vectors, and what they lack."""
    from pipeline.operations import spaces

    with call.opened() as opened:
        rows = spaces.listing(opened.database, _tenants(opened))
    cells = [
        (
            *(row.stored.space.name, row.stored.status, MEANT[row.stored.status], row.messages),
            *(row.sessions, row.memories, row.missing, row.given_up, "yes" if row.indexed else "no"),
        )
        for row in rows
    ]
    counts = ("messages", "sessions", "memories", "missing", "given up")
    table = rendering.rows(("space", "status", "", *counts, "index"), cells, right=counts)
    nothing = "There is no embedding space: this Postgres has no pgvector (see `backscroll doctor`)."
    call.answer({"spaces": [_as_dict(row) for row in rows]}, table if rows else nothing)


@command(app, "backscroll spaces add multilingual")
def add(
    call: Call,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="PROVIDER/MODEL",
            help="The model, or `multilingual` or `english` for a bundled one (default: that of the settings).",
        ),
    ] = None,
    rate: Annotated[float | None, "Rows per second that are filled at most (default: no limit)."] = None,
) -> None:
    """Register a space and fill it: a backfill embeds what is stored, and what is new gets vectors in both.

    Until the space is active or retired again, each worker of embeddings and each process of the HTTP API has both
    models in memory. Run as the owner of the tables (**BACKSCROLL_OWNER_DATABASE_URL**).
    """
    from pipeline.clients.factory import make_embedder
    from pipeline.operations import spaces

    request = parse_payload(BackfillRequest, {"kind": "embed", "rate_per_second": rate})
    with call.opened() as opened, _owner(opened.settings) as owner:
        tenant_ids = _tenants(opened)
        named = opened.settings.model_copy(update=_named(model)) if model else opened.settings
        with rendering.patience("Looking for the model", shown=not call.as_json):
            space = make_embedder(named).space
        stored = spaces.add(owner, opened.database, tenant_ids, space)
        started = _fill(opened, tenant_ids, request) if stored.status == "building" else {}
    what = f"{space.name} is {stored.status}"
    filled = (
        f"{what}: it is filled by {len(started)} backfills (`backscroll backfills list`). Then look at "
        f"`backscroll spaces compare {space.name}`, and switch by `backscroll spaces activate {space.name}`."
    )
    call.answer(_described(stored) | {"backfills": started}, filled if started else what)


@command(app, "backscroll spaces compare onnx/multilingual-e5-small/384 --samples 100")
def compare(
    call: Call,
    space: SpaceArgument,
    samples: Annotated[int, typer.Option(min=1, max=10_000, help="Questions at most.")] = 50,
    nearest: Annotated[int, typer.Option(min=1, max=200, help="Messages looked at for each.")] = 10,
) -> None:
    """Compare a space with the active one on the latest questions of the query log, or on messages without any.

    Shows how much of what they find is the same, and how much of what answers used (`used`) each finds.
    """
    from pipeline.clients.by_space import SpaceEmbedders
    from pipeline.clients.factory import make_embedder_for
    from pipeline.operations import spaces
    from pipeline.operations.spaces import compare_spaces
    from pipeline.store import vectors

    with call.opened() as opened:
        with opened.database.tenant(opened.settings.tenant) as as_tenant:
            candidate, active = spaces.find(as_tenant, space).space, vectors.active_space(as_tenant)
        if active is None:
            raise NotFound("no embedding space is active: run `backscroll db upgrade`")
        if active == candidate:
            raise InvalidInput(f"{candidate.name} is the active space itself: name another", field="space")
        with rendering.patience("Asking both models", shown=not call.as_json):
            stats = compare_spaces(
                opened.database,
                opened.settings.tenant,
                (active, candidate),
                SpaceEmbedders(lambda wanted: make_embedder_for(wanted, opened.settings)),
                limit=samples,
                nearest=nearest,
            )
            missing = spaces.missing(opened.database, _tenants(opened), candidate)
    call.answer({"comparison": stats, "missing": missing}, *_compared(stats, missing))


@command(app, "backscroll spaces activate onnx/multilingual-e5-small/384")
def activate(
    call: Call,
    space: SpaceArgument,
    force: Annotated[
        bool, "Switch though rows have no vector there: searches find these by keywords."
    ] = False,
) -> None:
    """Let searches compare in a space, from the next question on; the one before is kept to roll back to.

    Refuses while anything has no vector in it. An index is built first if the active space has one.
    """
    from pipeline.operations import spaces

    with (
        call.opened() as opened,
        _owner(opened.settings) as owner,
        rendering.patience("Checking that it is complete", shown=not call.as_json),
    ):
        done = spaces.activate(owner, opened.database, _tenants(opened), space, force=force)
    _switched(call, done)


@command(app, "backscroll spaces rollback")
def rollback(call: Call) -> None:
    """Go back to the space that was active before; nothing has to be embedded for it."""
    from pipeline.operations import spaces

    with call.opened() as opened, _owner(opened.settings) as owner:
        done = spaces.rollback(owner)
        missing = spaces.missing(opened.database, _tenants(opened), done.space)
    if missing and not call.as_json:
        rendering.warn(
            f"{missing:,} rows have no vector there, and are found by keywords: `backscroll backfills start embed` "
            "makes them."
        )
    _switched(call, done, missing=missing)


@command(app, "backscroll spaces retire deterministic/deterministic-hash-v1/256 --yes")
def retire(call: Call, space: SpaceArgument, yes: YesOption = False) -> None:
    """Stop writing a space that is not active, and delete its vectors; there is no way back but to fill it anew."""
    from pipeline.operations import spaces

    with call.opened() as opened, _owner(opened.settings) as owner:
        with owner.connect() as as_owner:
            name = spaces.find(as_owner, space).space.name
        call.confirm(f"This deletes all vectors of {name}. Go on?", yes=yes)
        retired = spaces.retire(owner, name)
        deleted = 0
        with rendering.patience("Deleting vectors", shown=not call.as_json):
            for count in spaces.delete_vectors(opened.database, _tenants(opened), retired):
                deleted += count
    call.answer({"space": name, "deleted": deleted}, f"{name} is retired; {deleted:,} vectors were deleted.")


@contextmanager
def _owner(settings: Settings) -> Iterator[Engine]:
    """Connect as the owner of the tables, for the time of the block."""
    from ops.local import migrate

    url = connection.owner_url(settings, "embedding spaces are changed as the owner of the tables")
    if settings.maintenance_database_url is None:
        raise SettingsError(
            "BACKSCROLL_MAINTENANCE_DATABASE_URL is not set: a space is of all tenants, which only this role sees"
        )
    with migrate.connected(url) as engine:
        yield engine


def _tenants(opened: Opened) -> list[str]:
    """Return all tenants, or without the role that sees them the one of the settings."""
    from pipeline.operations.doctor import collect

    everybody = opened.settings.maintenance_database_url is not None
    return collect.tenants(opened.database, None if everybody else opened.settings.tenant)


def _named(model: str) -> dict[str, str]:
    from pipeline.clients.onnx import onnx, onnx_folder

    bundled = {"multilingual": onnx_folder.MULTILINGUAL, "english": onnx_folder.ENGLISH}
    if model in bundled:
        return {"embedding_provider": onnx.PROVIDER, "embedding_model": bundled[model].model}
    provider, _, name = model.partition("/")
    if not name:
        raise InvalidInput(
            f"{model} must be {' or '.join(bundled)}, or PROVIDER/MODEL, such as "
            "sentence-transformers/intfloat/multilingual-e5-base",
            field="model",
        )
    return {"embedding_provider": provider, "embedding_model": name}


def _fill(opened: Opened, tenant_ids: list[str], request: BackfillRequest) -> dict[str, int]:
    """Start a backfill of embeddings for each tenant; returns their numbers."""
    from pipeline.operations import backfill
    from pipeline.operations.backfill_kinds import Current

    current = Current.of(opened.settings)
    made = {
        tenant_id: backfill.start(opened.database, tenant_id, request, current, again=True).id
        for tenant_id in tenant_ids
    }
    connection.wake(opened.settings, "backfill")
    return made


def _switched(call: Call, done: StoredSpace, **more: Any) -> None:
    call.answer(
        _described(done) | more,
        f"Searches compare in {done.space.name} now. The space before stays complete: `backscroll spaces rollback` "
        "goes back to it, and `backscroll spaces retire` deletes it.",
    )


def _compared(stats: Comparison, missing: int) -> Iterator[Any]:
    questions = f"{stats.questions:,} questions" if stats.questions else ""
    messages = f"{stats.samples - stats.questions:,} messages" if stats.samples > stats.questions else ""
    yield f"{' and '.join(filter(None, (questions, messages)))}, the {stats.nearest} nearest messages of each"
    cells = [
        (row.space, "–" if row.recall is None else f"{row.recall:.1%}", f"{row.embed_ms:.1f} ms")
        for row in stats.spaces
    ]
    columns = ("found of what answers used", "to embed one")
    yield rendering.rows(("space", *columns), cells, right=columns)
    yield f"{stats.overlap:.1%} of what they find is the same; the nearest is in {stats.same_first:.1%}."
    yield f"{missing:,} rows have no vector in {stats.spaces[1].space} yet." if missing else "It is complete."


def _described(stored: StoredSpace) -> dict[str, Any]:
    return {"space": stored.space.name, "status": stored.status}


def _as_dict(state: SpaceState) -> dict[str, Any]:
    from pipeline.operations.spaces import COUNTED

    space: EmbeddingSpace = state.stored.space
    return {
        **_described(state.stored),
        "provider": space.provider,
        "model": space.model,
        "dimensions": space.dimensions,
        "activated_at": state.stored.activated_at,
        **{name: getattr(state, name) for name in (*COUNTED, "indexed")},
    }
