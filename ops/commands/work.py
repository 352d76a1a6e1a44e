"""`backscroll work`: see what is owed and what was given up, have it done again, or give it up for good."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from ops.commands import rendering
from ops.commands.hints import Hints
from ops.commands.opening import opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from pipeline import owed
from pipeline.ledger import KINDS
from pipeline.owed import ARRIVAL, DROPPABLE, Changed, Filter, Item
from pipeline.store.database import Database
from schemas.errors import InvalidInput, NotFound
from schemas.settings import Settings

app = typer.Typer(rich_markup_mode="markdown")

State = Literal["dead", "pending", "running", "retrying"]
_UNITS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}

KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="As `work list` shows it.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="As `work list` shows it.")]
MaybeKindArgument = Annotated[
    str | None, typer.Argument(metavar="KIND", help="As `work list` shows it.", show_default=False)
]
MaybeKeyArgument = Annotated[
    str | None, typer.Argument(metavar="KEY", help="As `work list` shows it.", show_default=False)
]
StateOption = Annotated[State, typer.Option("--state", help="Of work in this state.")]
KindOption = Annotated[
    str | None, typer.Option("--kind", help=f"{', '.join(KINDS)} or {ARRIVAL}.", show_default=False)
]
ErrorOption = Annotated[
    str | None, typer.Option("--error", help="A part of its error's text.", show_default=False)
]
OlderOption = Annotated[
    str | None,
    typer.Option("--older-than", help="In that state for longer: 90s, 30min, 2h, 7d.", show_default=False),
]
AllOption = Annotated[bool, typer.Option("--all", help="Everything that the options below name.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.callback(
    invoke_without_command=True,
    epilog='**Examples:** backscroll work list · backscroll work replay --all --error "timed out" · '
    "backscroll work drop summarize session:42",
)
def work(context: typer.Context) -> None:
    """List, show, replay and drop owed work and dead letters.

    Work that fails is tried again with growing delays and then given up: it is **dead**, with its error. Messages
    that cannot be placed stand aside, as work of the kind **arrival**, and their chat goes on. Without `--tenant`
    this is the work of all tenants where **BACKSCROLL_MAINTENANCE_DATABASE_URL** is set.
    """
    if context.invoked_subcommand is None:
        list_()


@app.command(
    "list",
    epilog="**Examples:** backscroll work list --kind embed --older-than 2h · backscroll work list --state "
    "retrying --json",
)
def list_(
    state: StateOption = "dead",
    kind: KindOption = None,
    error: ErrorOption = None,
    older_than: OlderOption = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Rows at most.")] = 50,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List work, the longest in its state first; by default what was given up."""
    wanted = _filter(state, kind, error, older_than)
    with opened(data_dir, tenant) as (settings, database):
        items, total = owed.listing(database, _scope(settings, tenant), wanted, limit)
    if as_json:
        rendering.print_json({"state": state, "total": total, "work": items})
        return
    if not items:
        rendering.out().print(f"No such work is {state}.")
        return
    headings = ["tenant", "kind", "key", "tries", f"{state} since (UTC)", "request", "error"]
    table = rendering.table(*headings, right=("tries",), cut="error")
    for item in items:
        since = rendering.moment(item.since)
        request, why = item.trace_id or "–", rendering.preview(item.error or "", 200)
        tries = "–" if item.attempts is None else item.attempts
        rendering.row(table, item.tenant_id, item.kind, item.key, tries, since, request, why)
    rendering.out().print(table)
    if total > len(items):
        print(f"\n{len(items):,} of {total:,}: see the others with --limit.")


@app.command(epilog="**Example:** backscroll work show summarize session:42 --json")
def show(
    kind: KindArgument,
    key: KeyArgument,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show everything about one piece of work."""
    with opened(data_dir, tenant) as (settings, database):
        item = _find(database, _scope(settings, tenant), kind, key)
        chat = owed.chat_of(database, item)
    if as_json:
        rendering.print_json(asdict(item) | {"chat_id": chat})
        return
    facts = rendering.table("", "")
    facts.show_header = False
    age = (datetime.now(UTC) - item.since).total_seconds()
    for name, value in {
        "tenant": item.tenant_id,
        "work": f"{item.kind} {item.key}",
        "chat": chat or "–",
        "state": f"{item.state} since {rendering.moment(item.since)} UTC ({rendering.age(age)})",
        "owed since": f"{rendering.moment(item.owed_since)} UTC",
        "due": rendering.moment(item.due_at),
        "tries": "–" if item.attempts is None else str(item.attempts),
        "request": item.trace_id or "–",
        "error": item.error or "–",
    }.items():
        rendering.row(facts, name, value)
    rendering.out().print(facts)
    if item.state == "dead":
        print(f"\nHave it done again:  backscroll work replay {item.kind} {item.key}")


@app.command(
    epilog="**Examples:** backscroll work replay ingest telegram:-100420 · backscroll work replay --all "
    "--kind summarize --older-than 2h --yes"
)
def replay(
    kind: MaybeKindArgument = None,
    key: MaybeKeyArgument = None,
    everything: AllOption = False,
    state: StateOption = "dead",
    of_kind: KindOption = None,
    error: ErrorOption = None,
    older_than: OlderOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Have work done again, at once and with all its tries; messages that stand aside are placed again.

    One piece by KIND and KEY, or all that the options name. Nothing is done twice by it. A chat whose placing was
    given up goes on by this alone.
    """
    wanted = _filter(state, of_kind, error, older_than)
    with opened(data_dir, tenant) as (settings, database):
        items = _chosen(database, _scope(settings, tenant), kind, key, wanted, everything=everything)
        if kind is None and items and not yes:
            typer.confirm(f"Have {len(items):,} pieces of work done again?", abort=True, err=True)
        changed = owed.replay(database, items)
        hints = Hints(settings, rendering.err())
        for each in sorted({"ingest" if item.kind == ARRIVAL else item.kind for item in changed.items}):
            if each in KINDS:
                hints.send(each)
        hints.close()
    _tell(changed, "replayed", "due now", as_json=as_json)


@app.command(
    epilog="**Examples:** backscroll work drop summarize session:42 · backscroll work drop --all --kind embed "
    '--error "rejected"'
)
def drop(
    kind: MaybeKindArgument = None,
    key: MaybeKeyArgument = None,
    everything: AllOption = False,
    state: StateOption = "dead",
    of_kind: KindOption = None,
    error: ErrorOption = None,
    older_than: OlderOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Give work up for good: no summary, no vector, until a change or a backfill asks for it again.

    A session that waited for its summary is then **failed** and says why; a backfill is cancelled. Placing
    cannot be given up: replay it, or forget the messages.
    """
    wanted = _filter(state, of_kind, error, older_than)
    with opened(data_dir, tenant) as (settings, database):
        items = _chosen(database, _scope(settings, tenant), kind, key, wanted, everything=everything)
        if kind is not None and items[0].kind not in DROPPABLE:
            raise InvalidInput(
                f"work of the kind {kind} cannot be dropped, only {', '.join(sorted(DROPPABLE))}: replay it, "
                "or forget what it is about",
                field="kind",
            )
        if items and not yes:
            typer.confirm(f"Give up {len(items):,} pieces of work for good?", abort=True, err=True)
        changed = owed.drop(database, items)
    _tell(changed, "dropped", "given up for good", as_json=as_json)


def _filter(state: str, kind: str | None, error: str | None, older_than: str | None) -> Filter:
    return Filter(
        state=state,
        kind=kind,
        error=error,
        older_than_seconds=None if older_than is None else seconds(older_than),
    )


def seconds(given: str) -> float:
    """A length of time as people write it, in seconds. Raises `InvalidInput`.

    >>> [seconds(text) for text in ("90s", "30 min", "2h", "7d")]
    [90.0, 1800.0, 7200.0, 604800.0]
    """
    parts = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)\s*([a-z]+)", given.strip().lower())
    if parts is None or parts[2] not in _UNITS:
        raise InvalidInput(f"--older-than {given} is no length of time such as 90s, 30min, 2h or 7d")
    return float(parts[1]) * _UNITS[parts[2]]


def _scope(settings: Settings, tenant: str | None) -> str | None:
    """The tenant whose work is meant; None: everybody's."""
    everybody = tenant is None and settings.maintenance_database_url is not None
    return None if everybody else settings.tenant


def _find(database: Database, scope: str | None, kind: str, key: str) -> Item:
    items, _ = owed.listing(database, scope, Filter(kind=kind, key=key))
    if not items:
        raise NotFound(
            f"no work {kind} {key} is owed or given up: see `backscroll work list` (and its --state)"
        )
    if len(items) > 1:
        tenants = ", ".join(item.tenant_id for item in items[:5])
        raise InvalidInput(
            f"{len(items)} tenants have work {kind} {key}, say whose: --tenant ({tenants})", field="tenant"
        )
    return items[0]


def _chosen(
    database: Database,
    scope: str | None,
    kind: str | None,
    key: str | None,
    wanted: Filter,
    *,
    everything: bool,
) -> list[Item]:
    """What is meant: one piece, or with `--all` what the options name."""
    if everything == (kind is not None) or (kind is None) != (key is None):
        raise InvalidInput(
            "say which work: KIND and KEY of one piece, or --all with --state, --kind, --error, …"
        )
    if kind is not None and key is not None:
        return [_find(database, scope, kind, key)]
    return owed.listing(database, scope, wanted)[0]


def _tell(changed: Changed, done: str, is_now: str, *, as_json: bool) -> None:
    if as_json:
        rendering.print_json({done: _names(changed.items), "left": _names(changed.left)})
        return
    print(f"{len(changed.items):,} pieces of work are {is_now}.")
    if changed.left:
        named = ", ".join(f"{item.kind} {item.key}" for item in changed.left[:5])
        more = " …" if len(changed.left) > 5 else ""
        print(
            f"{len(changed.left):,} were left as they are ({named}{more}): being done, done meanwhile, or not to drop."
        )


def _names(items: Sequence[Item]) -> list[dict[str, str]]:
    return [{"tenant_id": item.tenant_id, "kind": item.kind, "key": item.key} for item in items]
