"""The description of the API: `/openapi.json` for programs, `/docs` for people, without third-party hosts."""

import importlib.metadata
import json
from functools import cache
from pathlib import Path
from typing import Any

from anyio import to_thread
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from schemas.context import PROFILE_PURPOSES
from schemas.memories import MAX_DOCUMENT_BYTES
from schemas.messages import MAX_BATCH, MAX_CONTENT_BYTES
from workers.api.bodies import MAX_BODY_BYTES
from workers.api.problems import Problem
from workers.api.scopes import Access

TITLE = "Backscroll"
SUMMARY = "Long-term conversation memory for chat bots."
VERSION = importlib.metadata.version("backscroll")
DESCRIPTION = f"""\
Hand over every message that your bot sees, and ask for a context when it must answer.

* Every request carries an API key as `Authorization: Bearer …`, with the scope that is named here. Only
  `/healthz`, `/readyz`, `/docs` and `/openapi.json` are open, and `/v1/events/{{platform}}/{{source_id}}` takes the
  platform's proof.
* Bodies are JSON of at most {MAX_BODY_BYTES} bytes, with at most {MAX_BATCH} messages of one chat, each of at
  most {MAX_CONTENT_BYTES} bytes, or a document of at most {MAX_DOCUMENT_BYTES}.
* Times are ISO 8601 with an offset, or seconds or milliseconds since 1970; answers are ISO 8601.
* Errors are `application/problem+json` (RFC 9457). After a 429 or 503 the same request may be sent again, in
  `Retry-After` seconds; nothing is stored twice.
* Every answer has an `X-Request-ID`, yours if you sent one; the log lines of all that follows carry it.
"""

_PROFILES = "What to look for.\n\n" + "\n".join(
    f"* `{name}`: {use}" for name, use in PROFILE_PURPOSES.items()
)
_REFERENCE = "#/components/schemas/{model}"
_EXAMPLES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("examples.json").read_bytes())
# relative to the page, so that it works behind a proxy's prefix
_ASSETS = "docs/assets"

_BEARER = "HTTPBearer"
SECURED: dict[str, Any] = {"security": [{_BEARER: []}]}
"""The description of an endpoint that needs a key."""

_bodies: set[type[BaseModel]] = set()


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a body that FastAPI does not see, with its examples."""
    _bodies.add(model)
    return _required_body({"$ref": _REFERENCE.format(model=model.__name__)}, model.__name__)


def scoped(description: str | None, access: Access) -> str:
    """Add the required scope to a description, only once, as a router builds its routes again."""
    needs = f"Scope: `{access.scope}`." if access.scope else "Scope: any."
    chats = " A key of some chats is refused." if access.chat is None else ""
    text = (description or "").removesuffix(needs + chats).rstrip()
    return f"{text}\n\n{needs}{chats}"


def any_body(name: str) -> dict[str, Any]:
    """Describe a body in a platform's format by its examples of this name."""
    return _required_body({}, name)


def _required_body(schema: dict[str, Any], examples: str) -> dict[str, Any]:
    shown = {name: {"value": value} for name, value in _EXAMPLES[examples].items()}
    content = {"application/json": {"schema": schema, "examples": shown}}
    return {"requestBody": {"required": True, "content": content}}


def install(app: FastAPI) -> None:
    """Add the schemas of bodies and problems to `/openapi.json`, and serve `/docs`."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=TITLE, version=VERSION, summary=SUMMARY, description=DESCRIPTION, routes=app.routes
            )
            models = sorted(_bodies, key=lambda model: model.__name__)
            _, ours = models_json_schema(
                [*((model, "validation") for model in models), (Problem, "serialization")],
                ref_template=_REFERENCE,
            )
            schema["components"]["schemas"] |= ours["$defs"]
            bearer = {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key, `bks_…` or that of the settings.",
            }
            schema["components"]["securitySchemes"] = {_BEARER: bearer}
            query = schema["components"]["schemas"]["ContextQuery"]["properties"]
            query["profile"] |= {"enum": list(PROFILE_PURPOSES), "description": _PROFILES}
            app.openapi_schema = schema
        return app.openapi_schema

    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title=f"{TITLE}: HTTP API",
        swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{_ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{_ASSETS}/favicon.png",
    )

    # async: it only returns
    async def docs() -> HTMLResponse:
        return page

    document = cache(lambda: to_json(described()))

    async def openapi() -> Response:
        made = await to_thread.run_sync(document, limiter=app.state.api.open_routes)
        return Response(made, media_type="application/json")

    app.openapi = described  # type: ignore[method-assign]
    app.add_api_route("/openapi.json", openapi, include_in_schema=False)
    app.add_api_route("/docs", docs, include_in_schema=False)
    app.mount(f"/{_ASSETS}", StaticFiles(packages=[("fastapi_offline", "static")]))
