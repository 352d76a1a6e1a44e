"""`/v1/events`: what a platform sends, as it sends it, becomes messages, edits, deletions, members and new ids.

A bot passes it on with its API key, or the platform sends it to a source's own URL and proves itself. Platforms switch
off hooks that fail, or repeat for hours what is refused: what is proven and cannot be read is answered 200 and logged.
"""

import time
from collections.abc import Sequence
from typing import Any

import structlog
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse

from pipeline.events import apply
from pipeline.events.apply import Applied
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.ingest.pruned import MessageLimits
from pipeline.platforms import events as platform_events
from pipeline.platforms import proofs
from pipeline.platforms.records import Broken, Event, Record
from pipeline.store.people import event_sources
from pipeline.store.people.event_sources import SecretSource
from schemas.base import Frozen
from schemas.errors import InvalidInput
from schemas.messages import ChatIn, clean_text
from workers.api.admission import caller_of
from workers.api.api_route import ApiRoute, DirectRoute
from workers.api.bodies import SMALL_BODY_BYTES, in_thread, read, value_of
from workers.api.errors import HttpError, request_id, responses
from workers.api.openapi import any_body, in_path
from workers.api.quota import take_messages
from workers.api.state import ApiState, state_of

log = structlog.get_logger(__name__)

router = APIRouter(tags=["events"], route_class=ApiRoute)

_PLATFORM = {"type": "string", "enum": list(platform_events.PARSERS)}

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
    caller = caller_of(request)
    body = await read(request)
    api = state_of(request)
    platform = request.path_params["platform"]
    if len(body) > SMALL_BODY_BYTES:
        events = await in_thread(request, body, _parsed, platform, body)
    else:
        events = _parsed(platform, body)
    broken = [event for event in events if isinstance(event, Broken)]
    if broken and all(isinstance(event, Broken | ChatIn) for event in events):
        reason = "; ".join(f"{each.where}: {each.reason}" for each in broken[:MAX_NAMED])
        raise InvalidInput(reason, field=broken[0].where)
    if named := {chat_id for event in events for chat_id in _chats_of(event)}:
        caller.require_chats(named)
    if caller.key.messages_per_day is not None:
        messages = sum(isinstance(event, Record) for event in events)
        await run_in_threadpool(take_messages, api.database, caller.key, messages)
    return _answer(await store(api, caller.tenant, events, small=len(body) <= SMALL_BODY_BYTES))


router.add_api_route(
    "/v1/events/{platform}",
    post_events,
    methods=["POST"],
    response_model=EventsReceipt,
    summary="Hand over what a platform sent",
    responses=responses(404, 408, 409, 413, 422),
    openapi_extra=any_body("events") | in_path(platform=_PLATFORM),
    route_class_override=DirectRoute,
)


SOURCE_SECONDS = 5.0
"""How long a process knows a source: one that was removed is refused by then."""
_known: dict[str, tuple[float, SecretSource]] = {}


async def _source(request: Request) -> SecretSource:
    """Return the source that a URL names. Raises `HttpError`."""
    platform, source_id = request.path_params["platform"], clean_text(request.path_params["source_id"])
    read_at, source = _known.get(source_id, (0.0, None))
    now = time.monotonic()
    if source is None or now - read_at > SOURCE_SECONDS:
        _known.pop(source_id, None)
        source = await run_in_threadpool(_find, state_of(request), source_id)
        if source is not None:
            _known[source_id] = now, source
    if source is None or source.platform != platform:
        raise HttpError(404, "not-found", f"There is no source of this id for {platform[:50]!r}.")
    return source


def _find(api: ApiState, source_id: str) -> SecretSource | None:
    with api.database.tenant("") as connection:
        return event_sources.find(connection, source_id)


async def _proven(request: Request) -> tuple[SecretSource, Any]:
    """Return the source of a request that the platform has proven to be its own, and the body's value.

    Raises `HttpError`; and `InvalidInput` for a body that is no JSON.
    """
    source = await _source(request)
    body = await read(request)
    reason = proofs.check(source.platform, source.secret, request.headers, body, time.time())
    if reason is not None:
        raise HttpError(401, "unproven", f"This is not proven to come from the platform: {reason}.")
    if len(body) > SMALL_BODY_BYTES:
        return source, await in_thread(request, body, value_of, body)
    return source, value_of(body)


async def post_hook(request: Request) -> Response:
    """Take what a platform sends to a source's URL, with the platform's own proof instead of an API key.

    Its handshakes are answered. What is proven is answered 200, even if it cannot be read.
    """
    applied = Applied()
    try:
        source, value = await _proven(request)
        if (answer := _handshake(source.platform, value)) is not None:
            return answer
        events = platform_events.parse(source.platform, value)
        applied = await store(state_of(request), source.tenant_id, events, small=len(events) < MAX_NAMED)
    except InvalidInput as error:
        # the reason may quote what people wrote
        log.warning("event_unreadable", platform=request.path_params["platform"], field=error.field)
        applied.broken.append(Broken(where="body", reason=str(error)))
    return Response(status_code=204) if request.path_params["platform"] == "discord" else _answer(applied)


def _handshake(platform: str, value: Any) -> Response | None:
    """Answer what a platform asks of a new URL."""
    match platform, value:
        case "slack", {"type": "url_verification", "challenge": str() as challenge}:
            return JSONResponse({"challenge": challenge})
        case "discord", {"type": 1} if "event" not in value:
            return JSONResponse({"type": 1})
    return None


async def get_hook(request: Request) -> Response:
    """Answer WhatsApp's handshake."""
    source = await _source(request)
    asked = request.query_params
    wanted = proofs.verify_token(source.secret)
    if source.platform != "whatsapp" or not proofs.equal(asked.get("hub.verify_token", ""), wanted):
        raise HttpError(401, "unproven", "hub.verify_token is missing or wrong.")
    return PlainTextResponse(asked.get("hub.challenge", ""))


async def put_transaction(request: Request) -> Response:
    """Take a transaction of a Matrix homeserver, which wants an empty object for an answer."""
    request.path_params["platform"] = "matrix"
    await post_hook(request)
    return JSONResponse({})


HOOK = "/v1/events/{platform}/{source_id}"
_HOOK_PATH = in_path(platform=_PLATFORM, source_id={"type": "string"})
router.add_api_route(
    HOOK,
    post_hook,
    methods=["POST"],
    response_model=EventsReceipt,
    summary="The URL of a source, for its platform",
    responses=responses(401, 404, 408, 409, 413, 422, 503),
    openapi_extra=any_body("events") | _HOOK_PATH,
    route_class_override=DirectRoute,
)
router.add_api_route(
    HOOK,
    get_hook,
    methods=["GET"],
    response_class=PlainTextResponse,
    summary="The handshake of a source",
    responses=responses(401, 404, 503),
    openapi_extra=_HOOK_PATH,
    route_class_override=DirectRoute,
)
router.add_api_route(
    "/v1/events/matrix/{source_id}/_matrix/app/v1/transactions/{transaction}",
    put_transaction,
    methods=["PUT"],
    summary="The URL of a source, for a Matrix homeserver",
    responses=responses(401, 404, 408, 409, 413, 422, 503),
    openapi_extra=any_body("events") | in_path(source_id={"type": "string"}, transaction={"type": "string"}),
    route_class_override=DirectRoute,
)


def _chats_of(event: Event) -> list[str]:
    ids = (getattr(event, name, None) for name in ("chat_id", "to"))
    return [chat_id for chat_id in ids if chat_id is not None]


def _parsed(platform: str, body: bytes) -> list[Event]:
    return platform_events.parse(platform, value_of(body))


async def store(api: ApiState, tenant: str, events: Sequence[Event], *, small: bool) -> Applied:
    """Store what events say: a few messages of one chat in the event loop, anything else in a thread."""
    messages = apply.one_chat(events)
    if messages and small and api.backlog.is_counted(tenant):
        api.backlog.require_room(tenant)
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
        api.backlog.require_room(tenant)
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
