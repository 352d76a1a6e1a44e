"""`backscroll work`: see what is owed and what was given up, have it done again, or give it up for good."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ops.commands import rendering
from ops.commands.backlog import Backlog, opened_backlog
from ops.commands.groups import ListByDefault
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.errors import InvalidInput
from schemas.kinds import ARRIVAL, KINDS, PAYLOAD

if TYPE_CHECKING:
    from pipeline.jobs.dead_letters import Changed, Filter, Item

app = typer.Typer(cls=ListByDefault, rich_markup_mode="markdown")

State = Literal["dead", "pending", "running", "retrying"]
_DURATION = re.compile(r"(\d{1,6}(?:\.\d+)?)\s*([a-z]+)")
_UNITS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}

KindArgument = Annotated[
    str, typer.Argument(metavar="KIND", help="As `work list` shows it; or KIND:KEY as one word.")
]
MaybeKindArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="KIND", help="As `work list` shows it; or KIND:KEY as one word.", show_default=False
    ),
]
MaybeKeyArgument = Annotated[
    str | None, typer.Argument(metavar="KEY", help="As `work list` shows it.", show_default=False)
]
StateOption = Annotated[State, typer.Option("--state", help="Of work in this state.")]
KindOption = Annotated[
    str | None,
    typer.Option("--kind", help=f"{', '.join(KINDS)}, {ARRIVAL} or {PAYLOAD}.", show_default=False),
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
    epilog='**Examples:** backscroll work list · backscroll work replay --all --error "timed out" · '
    "backscroll work drop summarize session:42",
)
def work() -> None:
    """List, show, replay and drop owed work and dead letters.

    Work that fails is tried again with growing delays and then given up: it is **dead**, with its error. Messages
    that cannot be placed stand aside, as work of the kind **arrival**, and their chat goes on; what bots have
    queued and cannot be accepted is of the kind **payload**, and lies in Redis. Without `--tenant` this is the work
    of all tenants where **BACKSCROLL_MAINTENANCE_DATABASE_URL** is set.
    """


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
    with opened_backlog(data_dir, tenant) as backlog:
        items, total = backlog.listing(wanted, limit)
    if as_json:
        rendering.print_json({"state": state, "total": total, "work": items})
        return
    if not items:
        unknown = "" if kind in {None, ARRIVAL, PAYLOAD, *KINDS} else f" There is no kind {kind}, either."
        rendering.out().print(f"No such work is {state}.{unknown}", markup=False)
        return
    headings = ["tenant", "kind", "key", "tries", f"{state} since (UTC)", "request", "error"]
    table = rendering.table(*headings, right=("tries",), cut="error")
    for item in items:
        since = rendering.moment(item.since)
        request, why = item.trace_id or "–", rendering.preview(_why(item), 200)
        tries = "–" if item.attempts is None else item.attempts
        rendering.row(table, item.tenant_id, item.kind, item.key, tries, since, request, why)
    rendering.out().print(table)
    if total > len(items):
        print(f"\n{len(items):,} of {total:,}: see the others with --limit.")


@app.command(
    epilog="**Examples:** backscroll work show summarize session:42 --json · backscroll work show payload:3f9a2c11d0e4"
)
def show(
    kind: KindArgument,
    key: MaybeKeyArgument = None,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show everything about one piece of work; of a payload its text, too, which nothing else shows."""
    name, of = _named(kind, key)
    if name is None or of is None:
        raise InvalidInput("say which work: KIND and KEY, as `backscroll work list` shows them")
    with opened_backlog(data_dir, tenant) as backlog:
        item = backlog.find(name, of)
        chat, said = backlog.chat_of(item), backlog.text_of(item)
    if as_json:
        payload = {} if said is None else {"payload": json.loads(said)}
        rendering.print_json(asdict(item) | {"chat_id": chat} | payload)
        return
    facts = rendering.table("", "")
    facts.show_header = False
    age = None if item.since is None else (datetime.now(UTC) - item.since).total_seconds()
    for name, value in {
        "tenant": item.tenant_id,
        "work": f"{item.kind} {item.key}",
        "chat": chat or "–",
        "state": f"{item.state} since {rendering.moment(item.since)} UTC ({rendering.age(age)})",
        "owed since": f"{rendering.moment(item.owed_since)} UTC",
        "due": rendering.moment(item.due_at),
        "tries": "–" if item.attempts is None else str(item.attempts),
        "request": item.trace_id or "–",
        "error": _why(item) or "–",
    }.items():
        rendering.row(facts, name, value)
    rendering.out().print(facts)
    if said is not None:
        print(f"\n{rendering.plain(said)}")
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
    given up goes on by this alone; a payload is queued again as it came.
    """
    wanted = _filter(state, of_kind, error, older_than)
    kind, key = _named(kind, key)
    with opened_backlog(data_dir, tenant) as backlog:
        items = _chosen(backlog, kind, key, wanted, everything=everything)
        if kind is None and items and not yes:
            typer.confirm(f"Have {len(items):,} pieces of work done again?", abort=True, err=True)
        changed = backlog.replay(items)
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
    cannot be given up: replay it, or forget the messages. A payload's messages are stored nowhere else: `--all`
    drops none without `--kind payload`.
    """
    from pipeline.jobs.dead_letters import DROPPABLE

    wanted = _filter(state, of_kind, error, older_than)
    kind, key = _named(kind, key)
    with opened_backlog(data_dir, tenant) as backlog:
        items = _chosen(backlog, kind, key, wanted, everything=everything)
        if kind is not None and kind not in (possible := DROPPABLE | {PAYLOAD}):
            raise InvalidInput(
                f"work of the kind {kind} cannot be dropped, only {', '.join(sorted(possible))}: replay it, "
                "or forget what it is about",
                field="kind",
            )
        if items and not yes:
            typer.confirm(f"Give up {len(items):,} pieces of work for good?", abort=True, err=True)
        changed = backlog.drop(items, payloads_too=PAYLOAD in {kind, of_kind})
    _tell(changed, "dropped", "given up for good", as_json=as_json)


def _filter(state: str, kind: str | None, error: str | None, older_than: str | None) -> Filter:
    from pipeline.jobs.dead_letters import Filter

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
    parts = _DURATION.fullmatch(given.strip().lower())
    if parts is None or parts[2] not in _UNITS:
        raise InvalidInput(f"--older-than {given} is no length of time such as 90s, 30min, 2h or 7d")
    return float(parts[1]) * _UNITS[parts[2]]


def _named(kind: str | None, key: str | None) -> tuple[str | None, str | None]:
    """KIND and KEY, which may have come as one word."""
    if kind is not None and key is None and ":" in kind:
        kind, _, key = kind.partition(":")
    return kind, key


def _why(item: Item) -> str:
    """Its error; of a payload what it is, too."""
    from pipeline.jobs.dead_letters import Payload

    if not isinstance(item, Payload):
        return item.error or ""
    return (
        f"version {item.version or 'unknown'}, {item.messages:,} messages: {item.error or 'no reason noted'}"
    )


def _chosen(
    backlog: Backlog, kind: str | None, key: str | None, wanted: Filter, *, everything: bool
) -> list[Item]:
    """What is meant: one piece, or with `--all` what the options name."""
    if everything == (kind is not None) or (kind is None) != (key is None):
        raise InvalidInput(
            "say which work: KIND and KEY of one piece, or --all with --state, --kind, --error, …"
        )
    if kind is not None and key is not None:
        return [backlog.find(kind, key)]
    return backlog.listing(wanted)[0]


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
