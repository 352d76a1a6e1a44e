"""`/docs`: what the door says of itself, by a Swagger UI that loads nothing from elsewhere."""

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

# from where the page is, so that it is found behind a proxy's prefix, too
_ASSETS = "docs/assets"


def install(app: FastAPI) -> None:
    """Serve the page and what it shows itself with."""
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title=f"{app.title}: HTTP API",
        swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{_ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{_ASSETS}/favicon.png",
    )

    # async: it reads nothing
    async def docs() -> HTMLResponse:
        return page

    app.add_api_route("/docs", docs, include_in_schema=False)
    app.mount(f"/{_ASSETS}", StaticFiles(packages=[("fastapi_offline", "static")]))
