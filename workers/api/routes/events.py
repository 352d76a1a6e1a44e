"""`/v1/events`: what a platform sends, as it sends it, becomes messages, edits, deletions, members and new ids."""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from pipeline.events import apply
from pipeline.events.apply import Applied
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.ingest.pruned import MessageLimits
from pipeline.platforms import events as platform_events
from pipeline.platforms.records import Broken, Event, Record
from schemas.base import Frozen
from schemas.errors import InvalidInput
from workers.api.api_route import ApiRoute, DirectRoute
from workers.api.bodies import SMALL_BODY_BYTES, read, value_of
from workers.api.errors import request_id, responses
from workers.api.openapi import any_body
from workers.api.state import SECURED, ApiState, authorize, state_of

router = APIRouter(tags=["events"], route_class=ApiRoute)

MAX_NAMED = 20
"""Broken items that an answer names; more are only counted."""


class BrokenEvent(Frozen):
    """An item that could not be read or was refused; the others are stored."""

    where: str
    """Its place in the body; `body`: all of it."""
    reason: str


class EventsReceipt(Frozen):
    """What became of a platform's payload."""

    accepted: int
    """The number of messages stored."""
    duplicates: int
    """Those that were there already, by their platform's id."""
    kept_out: int
    """Those that were not stored: forgotten, pruned, or of a sender who is not to be remembered."""
    edits: int
    """Edits that were applied, wait for their message, or changed nothing."""
    deletions: int
    """Deleted messages, which are kept out if they come later."""
    members: int
    """People who came into a chat or left it."""
    moves: int
    """Chats that got another id."""
    not_kept: dict[str, int]
    """What is not kept, by the platform's name of its kind."""
    broken: list[BrokenEvent]
    """What could not be read, the first 20."""
    request_id: str


async def post_events(request: Request) -> Response:
    """Take a platform's own payload, as its API or library gives it, and store what it says.

    With the 200 all of it is committed; sending it again is harmless, in whatever order. What is not kept is counted by
    its kind. An item that cannot be read is named, and the others are stored; if nothing can be read the answer is 422.
    """
    tenant = await authorize(request)
    body = await read(request)
    api = state_of(request)
    platform = request.path_params["platform"]
    if len(body) > SMALL_BODY_BYTES:
        events = await run_in_threadpool(_parsed, platform, body)
    else:
        events = _parsed(platform, body)
    broken = [event for event in events if isinstance(event, Broken)]
    if broken and all(isinstance(event, Broken) for event in events):
        reason = "; ".join(f"{each.where}: {each.reason}" for each in broken[:MAX_NAMED])
        raise InvalidInput(reason, field=broken[0].where)
    return _answer(await store(api, tenant, events, small=len(body) <= SMALL_BODY_BYTES))


router.add_api_route(
    "/v1/events/{platform}",
    post_events,
    methods=["POST"],
    response_model=EventsReceipt,
    summary="Hand over what a platform sent",
    responses=responses(401, 404, 408, 409, 413, 422, 503),
    openapi_extra=any_body("events") | SECURED,
    route_class_override=DirectRoute,
)


def _parsed(platform: str, body: bytes) -> list[Event]:
    return platform_events.parse(platform, value_of(body))


async def store(api: ApiState, tenant: str, events: Sequence[Event], *, small: bool) -> Applied:
    """Store what events say: a few messages of one chat in the event loop, anything else in a thread."""
    messages = apply.one_chat(events)
    if messages and small and api.backlog.is_counted():
        api.backlog.require_room()
        stored = await accept.try_accept(
            api.database, tenant, *messages, limits=MessageLimits.of(api.settings), trace_id=request_id()
        )
        if stored is not None:
            applied = Applied()
            applied.add(stored)
            return _woken(api, applied)
    return await run_in_threadpool(_store, api, tenant, events)


def _store(api: ApiState, tenant: str, events: Sequence[Event]) -> Applied:
    if any(isinstance(event, Record) for event in events):
        api.backlog.require_room()
    return _woken(
        api,
        apply.apply(
            api.database,
            tenant,
            events,
            SessionPolicy.of(api.settings),
            limits=MessageLimits.of(api.settings),
            trace_id=request_id(),
        ),
    )


def _woken(api: ApiState, applied: Applied) -> Applied:
    for kind in sorted(applied.follows):
        api.waker.wake_up(kind)
    return applied


def _answer(applied: Applied) -> Response:
    receipt = EventsReceipt(
        accepted=applied.accepted,
        duplicates=applied.duplicates,
        kept_out=applied.kept_out,
        edits=applied.edits,
        deletions=applied.deletions,
        members=applied.members,
        moves=applied.moves,
        not_kept=dict(applied.not_kept),
        broken=[BrokenEvent(where=each.where, reason=each.reason) for each in applied.broken[:MAX_NAMED]],
        request_id=request_id(),
    )
    return Response(receipt.model_dump_json(), media_type="application/json")
