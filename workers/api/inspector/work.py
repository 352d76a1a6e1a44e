"""Pages of jobs and dead letters (replay, drop), backfills (progress, start), spaces, and cost."""

from functools import partial
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from pipeline.ingest import accept
from pipeline.jobs import dead_letters
from pipeline.jobs.dead_letters import JobFilter, ListedJob
from pipeline.llm.ledger import Budget
from pipeline.operations import backfill, costs, lookup, status
from pipeline.operations.backfill_kinds import Current
from pipeline.operations.deployment import Deployment
from pipeline.operations.doctor import collect
from pipeline.store import vector_spaces, vectors
from pipeline.store.jobs import backfill_rows as stored
from pipeline.store.operations import counters
from schemas.backfills import FOR_GOOD, BackfillKind, BackfillRequest
from schemas.base import Closed
from schemas.errors import InvalidInput, NotFound
from schemas.messages import Id, Name, RowId
from workers import queues
from workers.api.admission import caller_of
from workers.api.inspector.chat_pages import ROWS
from workers.api.inspector.pages import Form, PageRoute, go_to, page
from workers.api.state import Api, Tenant

router = APIRouter(prefix="/inspect", route_class=PageRoute, include_in_schema=False)

LISTED = 200


class JobSearch(Closed):
    """The parameters of the list of jobs."""

    state: Literal["dead", "retrying", "running", "pending"] = "dead"
    kind: Annotated[Name, Field(max_length=50)] | None = None
    error: Annotated[Name, Field(max_length=200)] = ""


class JobChange(Closed):
    """Which jobs a form changes: one, or without `key` all dead ones of a kind."""

    kind: str
    key: str | None = None


class BackfillForm(Closed):
    """The form that starts a backfill."""

    kind: BackfillKind
    chat_id: Id | None = None
    everything: bool = False


class NewState(Closed):
    """The form that changes a backfill."""

    state: Literal["running", "paused", "cancelled"]


@router.get("/jobs")
def get_jobs(request: Request, api: Api, tenant: Tenant, wanted: Annotated[JobSearch, Query()]) -> Response:
    """List jobs in a state, those longest in it first, and count them by kind, and what was left out."""
    filters = JobFilter(state=wanted.state, kind=wanted.kind or None, error=wanted.error or None)
    rows, total = dead_letters.listing(api.database, tenant, filters, LISTED)
    with api.database.tenant(tenant) as connection:
        counts = status.job_counts(connection)
        lost = accept.left_out_counts(counters.totals(connection, status.WEEK_DAYS))
    shown: dict[str, Any] = {"counts": counts, "left_out": lost, "droppable": dead_letters.DROPPABLE}
    return page(request, "jobs", rows=rows, total=total, wanted=wanted, **shown)


@router.post("/jobs/replay")
def post_replay(request: Request, api: Api, tenant: Tenant, wanted: Form[JobChange]) -> Response:
    """Make jobs due at once, with all their attempts again."""
    enqueue = partial(queues.enqueue_payload, api.waker.celery)
    changed = dead_letters.replay(api.database, _chosen(api, tenant, wanted), enqueue)
    for kind in changed.kinds:
        api.waker.wake_up(kind)
    return page(request, "changed", changed=changed, done="due now", back="jobs")


@router.post("/jobs/drop")
def post_drop(request: Request, api: Api, tenant: Tenant, wanted: Form[JobChange]) -> Response:
    """Drop one job for good."""
    if wanted.key is None:
        raise InvalidInput("say which job", field="key")
    changed = dead_letters.drop(api.database, _chosen(api, tenant, wanted))
    return page(request, "changed", changed=changed, done="dropped for good", back="jobs")


def _chosen(api: Api, tenant: str, wanted: JobChange) -> list[ListedJob]:
    state = None if wanted.key else "dead"
    filters = JobFilter(state=state, kind=wanted.kind, key=wanted.key)
    items, _ = dead_letters.listing(api.database, tenant, filters)
    if not items:
        raise NotFound(f"no job {wanted.kind} {wanted.key or ''} is pending or dead: it was done meanwhile")
    return items


@router.get("/backfills")
def get_backfills(request: Request, api: Api, tenant: Tenant) -> Response:
    """List the newest backfills with their progress."""
    with api.database.tenant(tenant) as connection:
        rows = stored.with_pending(connection, stored.listing(connection, ROWS))
    return page(
        request, "backfills", rows=rows, kinds=[k for k in get_args(BackfillKind) if k not in FOR_GOOD]
    )


@router.post("/backfills")
def post_backfill(request: Request, api: Api, tenant: Tenant, wanted: Form[BackfillForm]) -> Response:
    """Start a backfill, as `backscroll backfills start` does. Raises `InvalidInput` for one that cannot be undone."""
    if wanted.kind in FOR_GOOD:
        raise InvalidInput(
            f"kind: {wanted.kind} cannot be undone: `backscroll backfills start {wanted.kind}`", field="kind"
        )
    with api.database.tenant(tenant) as connection:
        chat = lookup.find_chat(connection, wanted.chat_id) if wanted.chat_id else None
    backfill_request = BackfillRequest(
        kind=wanted.kind, chat_id=chat.chat_id if chat else None, missing_only=not wanted.everything
    )
    with api.database.tenant(tenant) as connection:
        settings = Deployment.of(connection).over(api.settings)
    by = caller_of(request).key.label
    backfill.start(api.database, tenant, backfill_request, Current.of(settings), by=by)
    api.waker.wake_up("backfill")
    return go_to("backfills")


@router.post("/backfills/{backfill_id}/state")
def post_state(
    request: Request, api: Api, tenant: Tenant, backfill_id: RowId, wanted: Form[NewState]
) -> Response:
    """Pause, resume or cancel a backfill."""
    backfill.change_state(api.database, tenant, backfill_id, wanted.state)
    if wanted.state == "running":
        api.waker.wake_up("backfill")
    return go_to("backfills")


@router.get("/spaces")
def get_spaces(request: Request, api: Api, tenant: Tenant) -> Response:
    """List the embedding spaces; counting missing vectors reads every row, and takes seconds for a million."""
    with api.database.tenant(tenant) as connection:
        rows = vector_spaces.listing(connection) if vectors.exist(connection) else []
        counts = status.job_counts(connection)
    return page(request, "spaces", rows=rows, jobs=next((row for row in counts if row.kind == "embed"), None))


@router.get("/cost")
def get_cost(
    request: Request, api: Api, tenant: Tenant, days: Annotated[int, Field(ge=1, le=90)] = 7
) -> Response:
    """Show what calls to language models cost, by day and by purpose, and which providers do not answer."""
    with api.database.tenant(tenant) as connection:
        running, stopped = Deployment.of(connection), costs.stopped_providers(connection)
    budget = Budget.of(running.over(api.settings))
    sent = running.differing() + running.sent(api.settings, collect.written_spaces(api.database))
    by_day = costs.collect(api.database, tenant, by="day", days=days, budget=budget)
    by_purpose = costs.collect(api.database, tenant, by="purpose", days=days, budget=budget)
    return page(request, "cost", by_day=by_day, by_purpose=by_purpose, days=days, stopped=stopped, sent=sent)
