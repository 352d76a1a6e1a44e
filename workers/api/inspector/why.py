"""Pages that explain the context of a new question, and of each record of the query log."""

from datetime import datetime
from typing import Annotated, Any, ClassVar
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from pipeline.operations import lookup, status
from pipeline.recall import build_context, query_log
from pipeline.store.chats.chats import Chat
from pipeline.store.search import query_log as log_rows
from schemas.base import Closed
from schemas.context import PROFILE_PURPOSES, LoggedContext
from schemas.errors import NotFound
from schemas.listing import QueryFilter
from schemas.messages import MAX_QUERY_CHARS, Id
from schemas.payloads import ContextQuery, parse_payload
from workers.api.inspector.chat_pages import LATEST, ROWS
from workers.api.inspector.context_view import view
from workers.api.inspector.pages import MAX_FORM_BYTES, Form, PageRoute, page
from workers.api.state import Api, Tenant

router = APIRouter(prefix="/inspect", route_class=PageRoute, include_in_schema=False)

SPANS = 500


class QuestionForm(Closed):
    """The form of a question."""

    # a form takes up to twelve bytes for a character
    form_bytes: ClassVar[int] = MAX_FORM_BYTES + 12 * MAX_QUERY_CHARS

    chat_id: Id | None = None
    query: Annotated[str, Field(max_length=MAX_QUERY_CHARS)] = ""
    user_id: Id | None = None
    profile: str = "balanced"
    budget_tokens: int | None = None
    as_of: datetime | None = None
    """In the chat's time zone unless it has an offset."""


@router.get("/ask")
def get_ask(request: Request, form: Annotated[QuestionForm, Query()]) -> Response:
    """Offer the form."""
    return page(request, "ask", form=form, profiles=PROFILE_PURPOSES)


@router.post("/ask")
def post_ask(request: Request, api: Api, tenant: Tenant, form: Form[QuestionForm]) -> Response:
    """Build a context as a bot would get it, without recording it, and explain it."""
    with api.database.tenant(tenant) as connection:
        chat = lookup.find_chat(connection, form.chat_id)
    values = _explained(api, tenant, chat, form)
    return page(request, "ask", form=form, profiles=PROFILE_PURPOSES, chat=chat, **values)


@router.get("/queries")
def get_queries(
    request: Request, api: Api, tenant: Tenant, wanted: Annotated[QueryFilter, Query()]
) -> Response:
    """List the contexts that were served, latest first."""
    rows = query_log.listing(api.database, tenant, wanted.chat_id, ROWS, wanted.after)
    return page(request, "queries", rows=rows, chat_id=wanted.chat_id, full=len(rows) == ROWS)


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
