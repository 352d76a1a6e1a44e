"""`/v1/events`: what a platform sends, as it sends it, becomes messages, edits, deletions, members and new ids.

A bot passes it on with its API key, or the platform sends it to a source's own URL with a proof. Platforms switch off
hooks that fail, or repeat refused events for hours: proven but unreadable events are answered 200. Whatever is not
kept is counted and logged.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse

from pipeline.events import apply_events, count_events, messages_of_one_chat, with_accounts
from pipeline.ingest import accept
from pipeline.ingest.accept import MessageLimits
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.platforms import webhooks
from pipeline.platforms.records import OTHER_CHAT, BotAccount, Broken, Event, Record, Skipped, Unread
from pipeline.store import api_keys
from pipeline.store.api_keys import SecretSource
from schemas.bots import MAX_NAMED, EventsReceipt
from schemas.errors import InvalidInput
from schemas.messages import ChatIn, clean_text
from schemas.payloads import parse_payload
from workers.api.admission import Caller, caller_of, take_messages
from workers.api.api_route import DirectRoute
from workers.api.bodies import LOOP_BYTES, MAX_BODY_BYTES, off_loop, received, require_off_loop, value_of
from workers.api.openapi import any_body
from workers.api.problems import HttpError, request_id, responses
from workers.api.scopes import OPEN
from workers.api.state import ApiState, state_of

router = APIRouter(tags=["events"], route_class=DirectRoute)

Platform = Annotated[str, Path(json_schema_extra={"enum": list(webhooks.PARSERS)})]
MAX_SMALL = 20
"""Most events that are checked in the event loop."""
SOURCE_SECONDS = 5.0
"""How long a process caches a source: a removed one is refused by then."""
_UNREADABLE: dict[str, int] = {"unreadable": 1}
NOT_STORED = (ChatIn, Skipped, Unread, Broken)
_known: dict[str, tuple[float, SecretSource]] = {}


@router.post(
    "/v1/events/{platform}",
    response_model=EventsReceipt,
    summary="Hand over what a platform sent",
    responses=responses(408, 409, 413, 422),
    openapi_extra=any_body("events"),
)
async def post_events(request: Request, platform: Platform) -> Response:
    """Take a platform's own payload, as its API or library gives it, and store what it says.

    `?time_zone=America/Bogota` says the clock of its chats, and `?account=shop_bot` which of several accounts of yours
    direct chats are with (`telegram:11@shop_bot`), where the payload does not. With the 200 all of it is
    committed; sending it again is harmless, in whatever order. What is not kept is counted by
    its kind. An item that cannot be read is named, and the others are stored; if nothing can be read the answer is 422.
    """
    caller, api = caller_of(request), state_of(request)
    try:
        async with received(request) as body:
            told = _told(request)
            events = await off_loop(
                request, body, lambda: _completed(platform, told, _readable(platform, value_of(body)))
            )
    except InvalidInput:
        await run_in_threadpool(
            accept.report_left_out, api.database, caller.tenant, platform, _UNREADABLE, {}
        )
        raise
    events = await _with_accounts(api.for_chats(caller.key.chats), caller, events)
    if named := _chats_of(events):
        caller.require_chats(named)
    return _answer(await store(api, caller, platform, events, in_loop=len(body) <= LOOP_BYTES))


HOOK = "/v1/events/{platform}/{source_id}"


@router.post(
    HOOK,
    response_model=EventsReceipt,
    summary="The URL of a source, for its platform",
    responses=responses(401, 408, 409, 413, 422, 503),
    openapi_extra=any_body("events"),
)
async def post_hook(request: Request, platform: Platform, source_id: str) -> Response:
    """Take what a platform sends to a source's URL, with the platform's own proof instead of an API key.

    Its handshakes are answered. What is proven is answered 200, even if it cannot be read, or is of chats that the
    source may not write to.
    """
    source = await _source(request, platform, source_id)
    known = webhooks.PLATFORMS[platform]
    if known.by_header:
        _require_proof(platform, source.secret, request.headers, b"")

    def proven(body: bytes) -> Response | list[Event]:
        _require_proof(platform, source.secret, request.headers, body)
        events = _handshake_or_events(platform, value_of(body))
        return events if isinstance(events, Response) else _completed(platform, told, events)

    try:
        told = _told(request)
        async with received(request, known.max_bytes or MAX_BODY_BYTES) as body:
            events = await off_loop(request, body, lambda: proven(body))
        if isinstance(events, Response):
            return events
        caller, in_loop = Caller(source.key, OPEN), len(body) <= LOOP_BYTES
        # the platform has proven which account of ours it is
        events = await _with_accounts(state_of(request), caller, events)
        allowed, api = list(_only_of(source.key.chats, events)), state_of(request).for_chats(source.key.chats)
        receipt = await store(api, caller, platform, allowed, in_loop=in_loop)
    except InvalidInput as error:
        receipt = EventsReceipt(request_id=request_id())
        receipt.leave_out("body", str(error))
        database = state_of(request).database
        await run_in_threadpool(
            accept.report_left_out, database, source.key.tenant, platform, receipt.left_out, {}
        )
    return Response(status_code=204) if known.answers_empty else _answer(receipt)


@router.get(
    HOOK,
    response_class=PlainTextResponse,
    summary="The handshake of a source",
    responses=responses(401, 503),
)
async def get_hook(request: Request, platform: Platform, source_id: str) -> Response:
    """Answer the handshake of a platform that asks for a token."""
    source = await _source(request, platform, source_id)
    parameters = request.query_params
    wanted = webhooks.verify_token(source.secret)
    asks = webhooks.PLATFORMS[platform].asks_for_token
    if not asks or not webhooks.equal_secrets(parameters.get("hub.verify_token", ""), wanted):
        raise HttpError(401, "unproven", "hub.verify_token is missing or wrong.")
    return PlainTextResponse(parameters.get("hub.challenge", ""))


@router.put(
    "/v1/events/matrix/{source_id}/_matrix/app/v1/transactions/{transaction}",
    summary="The URL of a source, for a Matrix homeserver",
    responses=responses(401, 408, 409, 413, 422, 503),
    openapi_extra=any_body("events"),
)
async def put_transaction(request: Request, source_id: str, transaction: str) -> Response:
    """Take a transaction of a Matrix homeserver, which wants an empty object for an answer."""
    await post_hook(request, "matrix", source_id)
    return JSONResponse({})


async def _source(request: Request, platform: str, source_id: str) -> SecretSource:
    """Return the source that a URL names. Raises `HttpError`."""
    source_id, now = clean_text(source_id), time.monotonic()
    read_at, source = _known.get(source_id, (0.0, None))
    if source is None or now - read_at > SOURCE_SECONDS:
        _known.pop(source_id, None)
        api = state_of(request)
        source = await to_thread.run_sync(_find, api, source_id, limiter=api.open_routes)
        if source is not None:
            _known[source_id] = now, source
    if source is None or source.platform != platform:
        raise HttpError(404, "not-found", f"There is no source of this id for {platform[:50]!r}.")
    return source


def _find(api: ApiState, source_id: str) -> SecretSource | None:
    with api.database.tenant("") as connection:
        return api_keys.find_source(connection, source_id)


def _require_proof(platform: str, secret: str, headers: Mapping[str, str], body: bytes) -> None:
    require_off_loop(body)
    reason = webhooks.check_proof(webhooks.PLATFORMS[platform], secret, headers, body, time.time())
    if reason is not None:
        raise HttpError(401, "unproven", f"This is not proven to come from the platform: {reason}.")


def _told(request: Request) -> tuple[str | None, str | None]:
    """Return the parameters `time_zone` and `account`. Raises `InvalidInput` unless the zone is an IANA name."""
    zone = request.query_params.get("time_zone")
    if zone is not None:
        parse_payload(ChatIn, {"chat_id": "of:any", "time_zone": zone})
    return zone, request.query_params.get("account")


def _completed(platform: str, told: tuple[str | None, str | None], events: list[Event]) -> list[Event]:
    """Return the events with the clock of their chats, and the account of ours, where the payload names none."""
    zone, account = told
    if account is not None:
        events = webhooks.of_account(platform, events, account)
    if zone is None:
        return events
    return [
        event.model_copy(update={"time_zone": event.time_zone or zone})
        if isinstance(event, ChatIn)
        else event
        for event in events
    ]


def _handshake_or_events(platform: str, value: Any) -> Response | list[Event]:
    """Return the answer to a platform's handshake with a new URL, or else its events."""
    if (answer := webhooks.PLATFORMS[platform].handshake(value)) is not None:
        return JSONResponse(answer)
    # nobody could send it in parts
    return webhooks.parse_events(platform, value, most=None)


def _readable(platform: str, value: Any) -> list[Event]:
    """Return a platform's events. Raises `InvalidInput` if none can be read."""
    events = webhooks.parse_events(platform, value)
    broken = [event for event in events if isinstance(event, Broken)]
    if broken and all(isinstance(event, BotAccount | Broken | ChatIn) for event in events):
        reason = "; ".join(f"{event.where}: {event.reason}" for event in broken[:MAX_NAMED])
        raise InvalidInput(reason, field=broken[0].where)
    return events


def _only_of(chats: Collection[str] | None, events: Iterable[Event]) -> Iterator[Event]:
    """Yield events of these chats (None: all), and in place of others what is counted."""
    for event in events:
        if chats is None or _chats_of([event]) <= set(chats):
            yield event
        elif not isinstance(event, ChatIn):
            yield Skipped(where=event.where, reason=OTHER_CHAT)


async def _with_accounts(api: ApiState, caller: Caller, events: list[Event]) -> list[Event]:
    if not any(isinstance(event, BotAccount) for event in events):
        return events
    return await run_in_threadpool(with_accounts, api.database, caller.key.tenant, events)


def _chats_of(events: Iterable[Event]) -> set[str]:
    named = (getattr(event, name, None) for event in events for name in ("chat_id", "to"))
    return {chat_id for chat_id in named if chat_id is not None}


async def store(
    api: ApiState, caller: Caller, platform: str, events: Sequence[Event], *, in_loop: bool
) -> EventsReceipt:
    """Store events: a few messages of one chat in the event loop, if it may be there, anything else in a thread."""
    tenant = caller.key.tenant
    if caller.key.messages_per_day is not None:
        handed_over = sum(not isinstance(event, NOT_STORED) for event in events)
        await run_in_threadpool(take_messages, api.database, caller.key, handed_over)
    messages = messages_of_one_chat(events) if in_loop and len(events) <= MAX_SMALL else None
    if messages and api.backlog.is_counted(tenant):
        api.backlog.require_room(tenant)
        limits = MessageLimits.of(api.settings)
        stored = await accept.try_accept(
            api.database, tenant, *messages, limits=limits, trace_id=request_id()
        )
        if stored is not None:
            receipt = EventsReceipt(request_id=request_id())
            count_events(receipt, stored)
            api.waker.wake_up("ingest")
            return receipt
    return await run_in_threadpool(_store, api, tenant, platform, events)


def _store(api: ApiState, tenant: str, platform: str, events: Sequence[Event]) -> EventsReceipt:
    if any(isinstance(event, Record) for event in events):
        api.backlog.require_room(tenant)
    policy, limits = SessionPolicy.of(api.settings), MessageLimits.of(api.settings)
    receipt, follows = apply_events(
        api.database, tenant, events, policy, limits=limits, trace_id=request_id()
    )
    for kind in sorted(follows):
        api.waker.wake_up(kind)
    accept.report_left_out(api.database, tenant, platform, receipt.left_out, receipt.not_kept)
    return receipt


def _answer(receipt: EventsReceipt) -> Response:
    return Response(receipt.model_dump_json(), media_type="application/json")
