"""Explain contexts: pages of a new question and of each record of the query log, and a file of one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, ClassVar
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from pipeline.operations import lookup, status
from pipeline.recall import build_context, query_log
from pipeline.recall.profiles import Weights
from pipeline.store.chats import chats
from pipeline.store.chats.chats import Chat
from pipeline.store.search import query_log as log_rows
from schemas.base import Closed
from schemas.context import PROFILE_PURPOSES, Context, Explanation, Hit, LoggedContext
from schemas.errors import NotFound
from schemas.listing import ChatSummary, QueryFilter, SessionSpan
from schemas.memories import certainty
from schemas.messages import MAX_QUERY_CHARS, Id, IdOrEmpty
from schemas.payloads import ContextQuery, parse_payload
from workers.api.inspector.chat_pages import LATEST, ROWS
from workers.api.inspector.pages import ASSETS, MAX_FORM_BYTES, TEMPLATES, Form, PageRoute, page
from workers.api.state import Api, Tenant

# One for each part of a message's score, as in the style sheet.
COLOURS = 22
# Hits whose sessions count as found on the time line.
BEST_MESSAGES = 20
NEAREST = 5
"""Messages that were not shown, the best ones, told with their text; of all others the number."""
CHOICES = 200
"""Chats that a field completes."""
MEANINGS = {field.name: field.metadata["means"] for field in fields(Weights)}


def standalone(context: Context, question: str, chat: ChatSummary, sessions: Sequence[SessionSpan]) -> str:
    """Render a standalone page, with its style and without scripts; `sessions` are the chat's (latest) ones."""
    values = view(context, question, chat, sessions)
    style = ASSETS["inspector.css"].decode()
    template = TEMPLATES.get_template("standalone.html.j2")
    return template.render(style=style, links=False, chat=chat, **values)


def view(
    context: Context, question: str, chat: ChatSummary, sessions: Sequence[SessionSpan]
) -> dict[str, Any]:
    """Return the template's values for a context with its explanation."""
    why = context.explain
    if why is None:
        raise ValueError("the context was built without `explain`")
    hits_by_title = {
        "Sessions found": why.sessions,
        "Messages found": why.messages,
        "Memories found": why.memories,
    }
    names = dict.fromkeys(
        name
        for hit in (*why.messages, *why.sessions, *why.memories)
        for name, value in hit.components.items()
        if value
    )
    reasons = {(dropped.kind, dropped.id): dropped.in_words() for dropped in why.dropped}
    return {
        "context": context,
        "why": why,
        "question": question,
        "judged": certainty(context.evidence, context.evidence_probability),
        "zone": chat.time_zone,
        "colours": {name: f"c{n % COLOURS}" for n, name in enumerate(names)},
        "hits": [
            {
                "title": title,
                "hits": hits,
                "parts": [name for name in names if any(hit.components.get(name) for hit in hits)],
                "most": max(sum(map(abs, hit.components.values())) for hit in hits) or 1.0,
            }
            for title, hits in hits_by_title.items()
            if hits
        ],
        "timeline": _timeline(context, why, sessions) if sessions else None,
        "meanings": MEANINGS,
        "nearest": [hit for hit in why.messages if not hit.shown_in][:NEAREST],
        "counted": Counter((each.kind, each.reason.replace("_", " ")) for each in why.dropped).most_common(),
        "shown": [(block.kind, item) for block in context.blocks for item in block.items],
        "fates": {
            (hit.kind, hit.id): f"shown in {hit.shown_in}"
            if hit.shown_in
            else reasons.get((hit.kind, hit.id), "")
            for _, hits in hits_by_title.items()
            for hit in hits
        },
    }


def _timeline(context: Context, why: Explanation, sessions: Sequence[SessionSpan]) -> dict[str, Any]:
    """Draw each session at its time, with its length as height, and mark those found and those shown."""
    spans = sorted(sessions, key=lambda span: span.started_at)
    first, last = spans[0].started_at, max(span.ended_at for span in spans)
    whole = max((last - first).total_seconds(), 1.0)
    most = max(span.message_count for span in spans) or 1
    best: list[Hit] = [*why.sessions, *why.messages[:BEST_MESSAGES]]
    best_sessions = {hit.session_id for hit in best}
    picked = {hit.session_id for hit in (*why.sessions, *why.messages) if hit.shown_in}
    bars = []
    for span in spans:
        height = 4 + 76 * span.message_count / most
        kind = "picked" if span.id in picked else "found" if span.id in best_sessions else None
        bars.append(
            {
                "span": span,
                "kind": kind,
                "state": {"picked": "shown", "found": "found", None: "not among the best"}[kind],
                "x": f"{990 * (span.started_at - first).total_seconds() / whole:.1f}",
                "y": f"{82 - height:.1f}",
                "width": f"{max(3, 990 * (span.ended_at - span.started_at).total_seconds() / whole):.1f}",
                "height": f"{height:.1f}",
            }
        )
    counted = Counter(item.kind for block in context.blocks for item in block.items)
    kinds = ", ".join(f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in sorted(counted.items()))
    part = f"{len(picked)} of {len(spans)} sessions have a part in what is shown: {kinds or 'nothing'}."
    return {"bars": bars, "first": first, "last": last, "part": part}


router = APIRouter(prefix="/inspect", route_class=PageRoute, include_in_schema=False)

SPANS = 500


class QuestionForm(Closed):
    """The form of a question."""

    # a form takes up to twelve bytes for a character
    form_bytes: ClassVar[int] = MAX_FORM_BYTES + 12 * MAX_QUERY_CHARS

    chat_id: IdOrEmpty | None = None
    query: Annotated[str, Field(max_length=MAX_QUERY_CHARS)] = ""
    user_id: Id | None = None
    profile: str = "balanced"
    budget_tokens: int | None = None
    as_of: datetime | None = None
    """In the chat's time zone unless it has an offset."""


@router.get("/ask")
def get_ask(request: Request, api: Api, tenant: Tenant, form: Annotated[QuestionForm, Query()]) -> Response:
    """Offer the form."""
    with api.database.tenant(tenant) as connection:
        choices = chats.names(connection, CHOICES)
    return page(request, "ask", form=form, profiles=PROFILE_PURPOSES, chats=choices)


@router.post("/ask")
def post_ask(request: Request, api: Api, tenant: Tenant, form: Form[QuestionForm]) -> Response:
    """Build a context as a bot would get it, without recording it, and explain it."""
    with api.database.tenant(tenant) as connection:
        chat = lookup.find_chat(connection, form.chat_id or None)
        choices = chats.names(connection, CHOICES)
    values = _explained(api, tenant, chat, form)
    return page(request, "ask", form=form, profiles=PROFILE_PURPOSES, chats=choices, chat=chat, **values)


class QueryChoice(QueryFilter):
    """The parameters of the query log; an empty field chooses all chats."""

    chat_id: IdOrEmpty | None = None


@router.get("/queries")
def get_queries(
    request: Request, api: Api, tenant: Tenant, wanted: Annotated[QueryChoice, Query()]
) -> Response:
    """List the contexts that were served, latest first."""
    rows = query_log.listing(api.database, tenant, wanted.chat_id or None, ROWS, wanted.after)
    with api.database.tenant(tenant) as connection:
        choices = chats.names(connection, CHOICES)
        asked = chats.names(connection, ROWS, list({row.chat_id for row in rows}))
    zones = {chat.chat_id: chat.time_zone for chat in asked}
    full = len(rows) == ROWS
    return page(request, "queries", rows=rows, zones=zones, chats=choices, chat_id=wanted.chat_id, full=full)


@router.get("/queries/{context_id}")
def get_query(request: Request, api: Api, tenant: Tenant, context_id: Id) -> Response:
    """Show a question, its context and answer, and explain the context of the same question as of then."""
    with api.database.tenant(tenant) as connection:
        row = log_rows.get(connection, context_id)
        if row is None:
            raise NotFound(
                f"there is no context {context_id} in the query log: it is older than "
                f"{api.settings.query_log_days} days, was not recorded, or was forgotten"
            )
        chat = lookup.find_chat(connection, row.chat_id)
    logged = LoggedContext.model_validate(row._mapping)
    form = QuestionForm(
        chat_id=logged.chat_id,
        query=logged.query or "",
        user_id=logged.user_id,
        profile=logged.profile,
        budget_tokens=logged.budget,
        as_of=logged.asked_at,
    )
    values = {} if logged.query is None else _explained(api, tenant, chat, form, logged)
    return page(request, "query", logged=logged, chat=chat, form=form, **values)


def _explained(
    api: Api, tenant: str, chat: Chat, form: QuestionForm, logged: LoggedContext | None = None
) -> dict[str, Any]:
    as_of = form.as_of
    if as_of is not None and as_of.tzinfo is None:
        as_of = as_of.replace(tzinfo=ZoneInfo(chat.time_zone))
    fields = form.model_dump(exclude_none=True) | {"chat_id": chat.chat_id, "explain": True}
    fields |= {"as_of": as_of} if as_of is not None else {}
    if logged is not None:
        fields |= {"agent_id": logged.agent_id, "session_key": logged.session_key}
    context = build_context(
        api.database,
        tenant,
        parse_payload(ContextQuery, fields),
        embedder=api.embedders,
        settings=api.settings,
        reranker=api.reranker,
        records=False,
    )
    spans = lookup.session_spans(api.database, tenant, chat.chat_id, SPANS)
    progress = status.progress(api.database, tenant, [chat.chat_id], LATEST)
    return view(context, form.query, lookup.summary(chat), spans) | {"progress": progress}
