"""The door's description for /docs: bodies, examples, and the schemas that FastAPI cannot see.

The endpoints read their bodies themselves, so that limits and errors are ours; so their bodies are described
here.
"""

import importlib.metadata
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from pipeline.retrieval.profiles import PURPOSES
from schemas.documents import MAX_DOCUMENT_BYTES, DocumentFilter, DocumentIn
from schemas.forgetting import Subject
from schemas.listing import ChatFilter, QueryFilter, SessionFilter
from schemas.memories import MemoryFilter, MemoryPayload
from schemas.messages import MAX_BATCH, MAX_CONTENT_BYTES
from schemas.overview import SessionPageQuery
from schemas.payloads import ContextQuery, EditPayload, IngestPayload, MemorySwitch, NewId
from schemas.querylog import AnswerIn
from schemas.search import MoreQuery, SearchQuery
from schemas.users import MembersPayload, MergePayload
from workers.api.bodies import MAX_BODY_BYTES
from workers.api.errors import Problem

_PROFILES = "What to look for.\n\n" + "\n".join(f"* `{name}`: {told}" for name, told in PURPOSES.items())
REFERENCE = "#/components/schemas/{model}"

DESCRIPTION = f"""\
Hand over every message that your bot sees, and ask for a context when it must answer.

* Every request but `/healthz` and `/readyz` carries the API key as `Authorization: Bearer …`.
* Bodies are JSON of at most {MAX_BODY_BYTES} bytes, with at most {MAX_BATCH} messages of one chat, each of at
  most {MAX_CONTENT_BYTES} bytes, or a document of at most {MAX_DOCUMENT_BYTES}.
* Times are ISO 8601 with an offset, or seconds or milliseconds since 1970; answers are ISO 8601.
* Errors are `application/problem+json` (RFC 9457). After a 503 the same request may be sent again, in
  `Retry-After` seconds; nothing is stored twice.
* Every answer has an `X-Request-ID`, yours if you sent one; the log lines of all that follows carry it.
"""

_MESSAGE = {
    "external_id": "1041",
    "sender_id": "telegram:11",
    "sender_name": "Ann",
    "content": "The boiler is repaired, we keep the old one.",
    "sent_at": "2026-03-02T18:04:00+01:00",
}


def _body(model: str, **examples: dict[str, Any]) -> dict[str, Any]:
    media = {
        "schema": {"$ref": REFERENCE.format(model=model)},
        "examples": {name.replace("_", " "): {"value": value} for name, value in examples.items()},
    }
    return {"requestBody": {"required": True, "content": {"application/json": media}}}


MESSAGES_BODY = _body(
    "IngestPayload",
    One_message={"chat": "telegram:-100200", "messages": _MESSAGE},
    Several_messages_and_what_is_known_of_the_chat={
        "chat": {
            "chat_id": "telegram:-100200",
            "kind": "group",
            "title": "Harbour house",
            "time_zone": "Europe/Lisbon",
            "language": "english",
        },
        "messages": [
            _MESSAGE,
            {
                "external_id": "1042",
                "sender_id": "telegram:bot7",
                "role": "assistant",
                "content": "Noted.",
                "sent_at": 1772471045,
            },
        ],
    },
)

EDIT_BODY = _body(
    "EditPayload",
    An_edit={"content": "The boiler is replaced.", "edited_at": "2026-03-02T18:10:00+01:00"},
)

FORGET_BODY = _body(
    "Subject",
    A_user={"kind": "user", "sender_id": "telegram:11"},
    A_message={"kind": "message", "chat_id": "telegram:-100200", "external_id": "1041"},
    A_chat={"kind": "chat", "chat_id": "telegram:-100200"},
    The_tenant={"kind": "tenant", "confirm": "default"},
)

NEW_ID_BODY = _body("NewId", A_supergroup={"to": "telegram:-1004711"})

SWITCH_BODY = _body("MemorySwitch", Off={"memory": False}, On={"memory": True})

ANSWER_BODY = _body(
    "AnswerIn",
    An_answer={"answer": "On 4 May, the plumber comes with it."},
    To_be_remembered={"answer": "On 4 May.", "used": ["message:812"], "remember": True},
)

CONTEXT_BODY = _body(
    "ContextQuery",
    A_question={"chat_id": "telegram:-100200", "query": "What did we decide about the boiler?"},
    With_reasons={
        "chat_id": "telegram:-100200",
        "query": "What did we decide about the boiler?",
        "budget_tokens": 1200,
        "explain": True,
    },
)

SEARCH_BODY = _body(
    "SearchQuery",
    By_words_and_meaning={"chat_id": "telegram:-100200", "query": "boiler repair", "roles": ["user"]},
    These_very_characters={"chat_id": "telegram:-100200", "query": "E41", "mode": "exact"},
    Sessions_on_a_theme_in_order_of_time={
        "chat_id": "telegram:-100200",
        "query": "boiler",
        "mode": "topic",
        "since": "2026-01-01T00:00:00Z",
        "limit": 100,
    },
)

MORE_BODY = _body(
    "MoreQuery",
    Around_what_was_shown={"chat_id": "telegram:-100200", "session_id": 30, "shown": [812, 815]},
)

MEMORY_BODY = _body(
    "MemoryPayload",
    A_preference={"scope": "user", "user_id": "telegram:11", "content": "Prefers tea.", "type": "preference"},
    Learned_in_a_chat={
        "scope": "organization",
        "content": "We meet on Mondays.",
        "learned_in": "telegram:-100200",
    },
)

DOCUMENT_BODY = _body(
    "DocumentIn",
    A_page_of_Markdown={
        "document_id": "house-rules",
        "content": "# House rules\n\nThe boiler is serviced every May, by the plumber from Almada.",
        "source": "https://example.org/house-rules",
    },
)


def _query(model: type[BaseModel]) -> dict[str, Any]:
    return {
        "parameters": [
            {"name": name, "in": "query", "schema": schema}
            for name, schema in model.model_json_schema()["properties"].items()
        ]
    }


MEMORY_FILTER = _query(MemoryFilter)
DOCUMENT_FILTER = _query(DocumentFilter)
CHAT_FILTER = _query(ChatFilter)
SESSION_FILTER = _query(SessionFilter)
QUERY_FILTER = _query(QueryFilter)
SESSION_PAGE = _query(SessionPageQuery)

MERGE_BODY = _body("MergePayload", Two_are_one={"into": "ann"})

MEMBERS_BODY = _body("MembersPayload", All_who_are_there={"members": ["telegram:11", "telegram:12"]})


def version() -> str:
    """The version of Backscroll that is installed."""
    return importlib.metadata.version("backscroll")


def install(app: FastAPI) -> None:
    """Let `/openapi.json` hold the schemas of the bodies and of problems, too."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                description=app.description,
                routes=app.routes,
            )
            _, ours = models_json_schema(
                [
                    (IngestPayload, "validation"),
                    (EditPayload, "validation"),
                    (ContextQuery, "validation"),
                    (AnswerIn, "validation"),
                    (Subject, "validation"),
                    (MemorySwitch, "validation"),
                    (NewId, "validation"),
                    (SearchQuery, "validation"),
                    (MoreQuery, "validation"),
                    (MemoryPayload, "validation"),
                    (DocumentIn, "validation"),
                    (MergePayload, "validation"),
                    (MembersPayload, "validation"),
                    (Problem, "serialization"),
                ],
                ref_template=REFERENCE,
            )
            schema["components"]["schemas"] |= ours["$defs"]
            query = schema["components"]["schemas"]["ContextQuery"]["properties"]
            query["profile"] |= {"enum": list(PURPOSES), "description": _PROFILES}
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]
