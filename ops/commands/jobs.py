"""List, show, replay and drop jobs.

A job that fails is retried with growing delays and then given up: it is **dead**, with its error. Messages that
cannot be placed are set aside as jobs of the kind **arrival**, and their chat continues without them; what bots
have queued and cannot be accepted is of the kind **payload**. Without `--tenant` these are the jobs of all tenants
where **BACKSCROLL_MAINTENANCE_DATABASE_URL** is set.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ops import connection
from ops.connection import Opened
from ops.console import rendering
from ops.console.command import Call, ListByDefault, YesOption, command, read_seconds
from schemas.errors import InvalidInput, NotFound
from schemas.kinds import ARRIVAL, KINDS, PAYLOAD

if TYPE_CHECKING:
    from pipeline.jobs.dead_letters import ChangedJobs, JobFilter, ListedJob


app = typer.Typer(help=__doc__, cls=ListByDefault, rich_markup_mode="markdown")

JobState = Literal["dead", "pending", "running", "retrying"]
NAMED_AT_MOST = 5

KindArgument = Annotated[str | None, typer.Argument(metavar="KIND", help="Kind, or KIND:KEY as one word.")]
KeyArgument = Annotated[str | None, typer.Argument(metavar="KEY", help="Key of the job.")]
KIND_HELP = f"{', '.join(KINDS)}, {ARRIVAL} or {PAYLOAD}."


@dataclass(frozen=True, kw_only=True)
class FilterOptions:
    """The options that select jobs."""

    state: Annotated[JobState, "Only jobs in this state."] = "dead"
    of_kind: Annotated[str | None, typer.Option("--kind", help=KIND_HELP)] = None
    error: Annotated[str | None, "Only jobs whose error contains this."] = None
    older_than: Annotated[str | None, "Only jobs in that state for longer: 90s, 30min, 2h, 7d."] = None

    def filter(self) -> JobFilter:
        """Make the filter of jobs. Raises `InvalidInput` for what is no duration."""
        from pipeline.jobs.dead_letters import JobFilter

        older = None if self.older_than is None else read_seconds(self.older_than)
        return JobFilter(state=self.state, kind=self.of_kind, error=self.error, older_than_seconds=older)


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(FilterOptions):
    """The arguments and options of a command that changes jobs."""

    kind: KindArgument = None
    key: KeyArgument = None
    everything: Annotated[bool, typer.Option("--all", help="All jobs that the other options select.")] = False
    yes: YesOption = False

    def select(self, call: Call, opened: Opened) -> tuple[str | None, list[ListedJob]]:
        """Find the one job named, and its kind, or with `--all` those that the options select."""
        kind, key = _named(self.kind, self.key)
        if self.everything == (kind is not None) or (kind is None) != (key is None):
            raise InvalidInput(
                "say which job: KIND and KEY of one, or --all with --state, --kind, --error, …"
            )
        if kind is not None and key is not None:
            return kind, [_find(call, opened, kind, key)]
        return None, _listed(call, opened, self.filter())[0]


@command(app, "backscroll jobs list --kind embed --older-than 2h", name="list")
def list_(
    call: Call,
    options: FilterOptions,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Jobs at most.")] = 50,
) -> None:
    """List jobs, the longest in their state first; by default the dead ones."""
    state, kind = options.state, options.of_kind
    with call.opened() as opened:
        items, total = _listed(call, opened, options.filter(), limit)
    cells = [
        (
            *(item.tenant_id, item.kind, item.key, "–" if item.attempts is None else item.attempts),
            rendering.moment(item.since),
            *(() if state == "dead" else (rendering.moment(item.due_at),)),
            *(item.trace_id or "–", rendering.preview(item.error or "", 200)),
        )
        for item in items
    ]
    due = () if state == "dead" else ("due (UTC)",)
    headings = ("tenant", "kind", "key", "attempts", f"{state} since (UTC)", *due, "request", "error")
    unknown = "" if kind in {None, ARRIVAL, PAYLOAD, *KINDS} else f" There is no kind {kind}, either."
    call.answer(
        {"state": state, "total": total, "jobs": items},
        rendering.rows(headings, cells, right=("attempts",), cut="error")
        if items
        else f"No such job is {state}.{unknown}",
        *([f"\n{len(items):,} of {total:,}: see the others with --limit."] if total > len(items) else []),
    )


@command(app, "backscroll jobs show summarize session:42 --json")
def show(call: Call, kind: KindArgument, key: KeyArgument = None) -> None:
    """Show everything about one job; for a payload its text, too, which no other command shows."""
    job_kind, job_key = _named(kind, key)
    if job_kind is None or job_key is None:
        raise InvalidInput("say which job: KIND and KEY, as `backscroll jobs list` shows them")
    from pipeline.jobs import dead_letters

    with call.opened() as opened:
        item = _find(call, opened, job_kind, job_key)
        chat = dead_letters.chat_of(opened.database, item)
        stored = dead_letters.payload_of(opened.database, item)
    # JSON may hold half of a surrogate pair, which no terminal takes
    text = json.dumps(json.loads(stored or "null"), ensure_ascii=False, indent=2)
    text = text.encode(errors="replace").decode()
    age = (datetime.now(UTC) - item.since).total_seconds()
    facts = {
        "tenant": item.tenant_id,
        "job": f"{item.kind} {item.key}",
        "chat": chat or "–",
        "state": f"{item.state} since {rendering.moment(item.since)} UTC ({rendering.age(age)})",
        "pending since": f"{rendering.moment(item.pending_since)} UTC",
        "due": rendering.moment(item.due_at),
        "attempts": "–" if item.attempts is None else str(item.attempts),
        "request": item.trace_id or "–",
        "error": item.error or "–",
    }
    call.answer(
        asdict(item) | {"chat_id": chat} | ({} if stored is None else {"payload": json.loads(text)}),
        rendering.facts(facts),
        *([] if stored is None else [f"\n{text}"]),
        *([f"\nReplay it:  backscroll jobs replay {item.kind} {item.key}"] if item.state == "dead" else []),
    )


@command(app, "backscroll jobs replay ingest telegram:-100420")
def replay(call: Call, options: ChangeOptions) -> None:
    """Make jobs due at once, with all their attempts; messages that were set aside are placed again.

    Select one job by KIND and KEY, or with `--all` those that the options select. Nothing is done twice. A chat whose
    placing was given up continues only after this; a payload is queued again as it came.
    """
    from pipeline.jobs import dead_letters
    from workers import queues

    with call.opened() as opened:
        kind, items = options.select(call, opened)
        if kind is None and items:
            call.confirm(f"Replay {len(items):,} jobs?", yes=options.yes)

        def enqueue(payload: str, trace_id: str | None) -> None:
            with closing(connection.open_queue(opened.settings)) as queue:
                queues.enqueue_payload(queue, payload, trace_id)

        changed = dead_letters.replay(opened.database, items, enqueue)
        connection.wake(opened.settings, *changed.kinds)
    _answer(call, changed, "replayed", "due now")


@command(app, "backscroll jobs drop summarize session:42")
def drop(call: Call, options: ChangeOptions) -> None:
    """Drop jobs for good: no summary, no vector, until a change or a backfill makes them due again.

    A session that waited for its summary is then **failed** and says why; a backfill is cancelled. Placing cannot be
    dropped: replay it, or forget the messages. A payload's messages are stored nowhere else: `--all` drops none
    without `--kind payload`.
    """
    from pipeline.jobs import dead_letters

    with call.opened() as opened:
        kind, items = options.select(call, opened)
        if kind is not None and kind not in dead_letters.DROPPABLE:
            droppable = ", ".join(sorted(dead_letters.DROPPABLE))
            raise InvalidInput(
                f"jobs of the kind {kind} cannot be dropped, only {droppable}: replay the job, "
                "or forget what it is about",
                field="kind",
            )
        if items:
            call.confirm(f"Drop {len(items):,} jobs for good?", yes=options.yes)
        # a payload's messages are stored nowhere else
        kept = [] if PAYLOAD in {kind, options.of_kind} else [item for item in items if item.kind == PAYLOAD]
        changed = dead_letters.drop(opened.database, [item for item in items if item not in kept])
    changed = dead_letters.ChangedJobs(items=changed.items, left=changed.left + kept)
    _answer(call, changed, "dropped", "dropped for good")


@command(app, "backscroll jobs move celery")
def move(
    call: Call,
    source: Annotated[str, typer.Argument(metavar="LIST", help="As `backscroll doctor` names it.")],
    yes: YesOption = False,
) -> None:
    """Move the tasks of a list in Redis that no worker reads to the queue accept; a bot without `queue` fills `celery`.

    What cannot be accepted becomes a dead letter.
    """
    from workers import broker

    settings = connection.open_stack(call.data_dir, call.tenant)
    queues = broker.look(settings, workers=True)
    if not (waiting := queues.unread.get(source)):
        why = queues.problem or "see `backscroll doctor`"
        raise NotFound(f"no tasks wait in a list {source} that no worker reads: {why}")
    call.confirm(f"Move {waiting:,} tasks from {source} to accept?", yes=yes)
    moved = broker.move_to_accept(settings, source)
    call.answer({"moved": moved}, f"{moved:,} tasks are in the queue accept now.")


def _listed(
    call: Call, opened: Opened, wanted: JobFilter, limit: int | None = None
) -> tuple[list[ListedJob], int]:
    """List jobs of one tenant, or of all if there is a maintenance role and no `--tenant`, and count them."""
    from pipeline.jobs import dead_letters

    everybody = call.tenant is None and opened.settings.maintenance_database_url is not None
    scope = None if everybody else opened.settings.tenant
    return dead_letters.listing(opened.database, scope, wanted, limit)


def _find(call: Call, opened: Opened, kind: str, key: str) -> ListedJob:
    """Find one job. Raises `NotFound`, and `InvalidInput` if several tenants have it."""
    from pipeline.jobs.dead_letters import JobFilter

    items, _ = _listed(call, opened, JobFilter(kind=kind, key=key))
    if not items:
        raise NotFound(
            f"no job {kind} {key} is pending or dead: see `backscroll jobs list` (and its --state)"
        )
    if len(items) > 1:
        tenants = ", ".join(item.tenant_id for item in items[:5])
        raise InvalidInput(
            f"{len(items)} tenants have a job {kind} {key}, say whose: --tenant ({tenants})", field="tenant"
        )
    return items[0]


def _named(kind: str | None, key: str | None) -> tuple[str | None, str | None]:
    """Separate KIND and KEY, which may have come as one word."""
    if kind is not None and key is None and ":" in kind:
        kind, _, key = kind.partition(":")
    return kind, key


def _answer(call: Call, changed: ChangedJobs, done: str, now: str) -> None:
    names = ", ".join(f"{item.kind} {item.key}" for item in changed.left[:NAMED_AT_MOST])
    more = " …" if len(changed.left) > NAMED_AT_MOST else ""
    left = (
        f"{len(changed.left):,} are unchanged ({names}{more}): running, done meanwhile, not droppable, or of a payload "
        "that could not be read."
    )
    call.answer(
        {done: _names(changed.items), "left": _names(changed.left)},
        f"{len(changed.items):,} jobs are {now}.",
        *([left] if changed.left else []),
    )


def _names(items: Sequence[ListedJob]) -> list[dict[str, str]]:
    return [{"tenant_id": item.tenant_id, "kind": item.kind, "key": item.key} for item in items]
