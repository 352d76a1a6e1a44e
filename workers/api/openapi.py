"""The description of the API: `/openapi.json` for programs, `/docs` for people, without foreign hosts."""

import importlib.metadata
import json
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from schemas.documents import MAX_DOCUMENT_BYTES
from schemas.messages import MAX_BATCH, MAX_CONTENT_BYTES
from schemas.profiles import PURPOSES
from workers.api.bodies import MAX_BODY_BYTES
from workers.api.errors import Problem

TITLE = "Backscroll"
SUMMARY = "Long-term conversation memory for chat bots."
VERSION = importlib.metadata.version("backscroll")
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

_PROFILES = "What to look for.\n\n" + "\n".join(f"* `{name}`: {told}" for name, told in PURPOSES.items())
_REFERENCE = "#/components/schemas/{model}"
_EXAMPLES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("examples.json").read_bytes())
# relative to the page, so that they are found behind a proxy's prefix
_ASSETS = "docs/assets"

_bodies: set[type[BaseModel]] = set()


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a body that FastAPI does not see, with its examples."""
    _bodies.add(model)
    media = {
        "schema": {"$ref": _REFERENCE.format(model=model.__name__)},
        "examples": {name: {"value": value} for name, value in _EXAMPLES[model.__name__].items()},
    }
    return {"requestBody": {"required": True, "content": {"application/json": media}}}


def any_body(name: str) -> dict[str, Any]:
    """Describe a body of somebody else's making by its examples of this name."""
    media = {"schema": {}, "examples": {each: {"value": value} for each, value in _EXAMPLES[name].items()}}
    return {"requestBody": {"required": True, "content": {"application/json": media}}}


def in_path(**schemas: dict[str, Any]) -> dict[str, Any]:
    """Describe the parts of a path that FastAPI does not see."""
    parts = [{"name": name, "in": "path", "required": True, "schema": each} for name, each in schemas.items()]
    return {"parameters": parts}


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
            query = schema["components"]["schemas"]["ContextQuery"]["properties"]
            query["profile"] |= {"enum": list(PURPOSES), "description": _PROFILES}
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

    app.openapi = described  # type: ignore[method-assign]
    app.add_api_route("/docs", docs, include_in_schema=False)
    app.mount(f"/{_ASSETS}", StaticFiles(packages=[("fastapi_offline", "static")]))
