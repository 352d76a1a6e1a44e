"""The frame of every page: access, origin of forms, headers, templates, errors; and the login."""

import mimetypes
from collections.abc import Callable, Coroutine
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, RedirectResponse

from pipeline.people import api_keys
from pipeline.people.api_keys import digest_of, end_login
from pipeline.text import display
from schemas.base import Frozen
from schemas.bots import CurrentKey
from schemas.errors import NotFound
from schemas.payloads import parse_payload
from workers.api import keyring
from workers.api.admission import permit
from workers.api.api_route import ApiRoute
from workers.api.bodies import fields_of, off_loop, received
from workers.api.problems import TITLES, HttpError, as_invalid, as_problem, request_id
from workers.api.scopes import READ_PAGE
from workers.api.state import Api, state_of

T = TypeVar("T", bound=BaseModel)

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # with `no-referrer` browsers would not send the origin of a form
    "Referrer-Policy": "same-origin",
}
MAX_FORM_BYTES = 8 * 1024
"""Size of a form whose model states no `form_bytes`."""
ASSETS = {asset.name: asset.read_bytes() for asset in files(__package__).joinpath("assets").iterdir()}
TABS = {
    "Chats": "chats",
    "Ask and why": "ask",
    "Query log": "queries",
    "People": "people",
    "Jobs": "jobs",
    "Backfills": "backfills",
    "Spaces": "spaces",
    "Cost": "cost",
}


def _plain(value: Any) -> Any:
    """Remove control characters and bidirectional overrides from text that is not yet markup."""
    return display.plain(value) if type(value) is str else value


TEMPLATES = Environment(
    loader=PackageLoader(__package__, "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_plain,
)
"""Every value in them is escaped, and stripped of characters that control the display."""
TEMPLATES.filters |= {
    "moment": display.moment,
    "age": display.age,
    "dollars": display.dollars,
    "preview": display.preview,
    "part": lambda value: quote(str(value), safe=""),
    "number": "{:,}".format,
}


def page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    caller = getattr(request.state, "caller", None)
    key = caller.key if caller else None
    made = TEMPLATES.get_template(f"{template}.html.j2").render(
        tabs=TABS,
        place=request.url.path.split("/")[2:3],
        key=key,
        may_operate=key is not None and "operate" in key.scopes,
        links=True,
        **values,
    )
    return HTMLResponse(made, status)


def go_to(path: str) -> Response:
    """Send the browser on, with a GET."""
    return RedirectResponse(f"{keyring.COOKIE_PATH}/{path}", 303)


class PageRoute(ApiRoute):
    """A page, for whoever has logged in with a key that may see it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that admits a request by its cookie, answers it, and renders any error as a page."""
        handler = self.get_inner_handler()

        async def answered(request: Request) -> Response:
            try:
                if request.method == "POST":
                    _require_same_site(request)
                response = None if self.access.is_open else await self._admit(request)
                response = response or await handler(request)
            except RequestValidationError as error:
                response = _problem(request, as_invalid(request, error))
            except ClientDisconnect:
                raise
            except Exception as error:  # noqa: BLE001 - told on the page, and what is not ours in the log
                response = _problem(request, as_problem(error))
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return answered

    async def _admit(self, request: Request) -> Response | None:
        """Set the caller of the request; return a redirect to the login if nobody is logged in."""
        login, key = await login_of(request)
        if key is not None and await run_in_threadpool(
            api_keys.has_ended, state_of(request).database, key.tenant, login
        ):
            key = None
        if key is None:
            if "hx-request" in request.headers:
                return Response(headers={"HX-Redirect": f"{keyring.COOKIE_PATH}/login"})
            return go_to(f"login?next={quote(request.url.path)}" if request.method == "GET" else "login")
        request.state.caller = await permit(request, key, self.access)
        return None


async def login_of(request: Request) -> tuple[bytes, CurrentKey | None]:
    """Return the login of a request's cookie, which may have ended, and its key; None without a valid one."""
    api = state_of(request)
    login, digest = api.seal.open(request.cookies.get(keyring.COOKIE_NAME, "")) or (b"", None)
    return login, None if digest is None else await api.keyring.find_digest(digest)


def _require_same_site(request: Request) -> None:
    """Refuse a form of another site, whose page could make the browser send it."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    # over plain HTTP browsers omit the first, except on the machine itself
    if site != "same-origin" and (site or origin.partition("://")[2] != request.headers.get("host")):
        raise HttpError(403, "forbidden", "This form was not sent by a page of the inspector.")


def _problem(request: Request, problem: HttpError) -> Response:
    title = TITLES.get(problem.kind, "This is not possible")
    made = page(request, "problem", problem.status, title=title, detail=problem.detail, id=request_id())
    made.headers.update(problem.headers or {})
    return made


class _FormReader:
    def __init__(self, model: type[BaseModel]) -> None:
        self.model, self.most = model, getattr(model, "form_bytes", MAX_FORM_BYTES)

    async def __call__(self, request: Request) -> BaseModel:
        async with received(request, self.most) as form:
            return await off_loop(request, form, lambda: parse_payload(self.model, fields_of(form)))


if TYPE_CHECKING:
    Form = Annotated[T, _FormReader]
else:

    class Form:
        """`Form[Model]`: a parameter that takes the fields of a form; those left empty are left out."""

        def __class_getitem__(cls, model: type[BaseModel]) -> Any:
            return Annotated[model, Depends(_FormReader(model))]


login_router = APIRouter(prefix="/inspect", route_class=PageRoute, include_in_schema=False)


class LoginForm(Frozen):
    """The login form."""

    key: str = ""
    next: str = ""


@login_router.get("/login")
async def get_login(request: Request, next: str = "") -> Response:  # noqa: A002 - a field of the form
    """Ask for a key."""
    return page(request, "login", next=next, refused=False)


@login_router.post("/login")
async def post_login(request: Request, api: Api, login: Form[LoginForm]) -> Response:
    """Accept a key that may read, and keep its digest in the cookie."""
    secret = login.key.strip()
    key = await api.keyring.find(secret) if secret else None
    if key is None:
        return page(request, "login", 401, next=login.next, refused=True)
    await permit(request, key, READ_PAGE)
    # only a path of ours, never another site's address
    inside = (
        login.next.startswith(f"{keyring.COOKIE_PATH}/") and "\\" not in login.next and ".." not in login.next
    )
    response = go_to(login.next.removeprefix(f"{keyring.COOKIE_PATH}/") if inside else "chats")
    response.set_cookie(
        keyring.COOKIE_NAME,
        api.seal.seal(digest_of(secret)),
        max_age=keyring.LOGIN_SECONDS,
        path=keyring.COOKIE_PATH,
        # the page knows how the browser reached it, also through a proxy that is not trusted
        secure="https" in (request.url.scheme, request.headers.get("origin", "").partition(":")[0]),
        httponly=True,
        samesite="strict",
    )
    return response


@login_router.post("/logout")
async def post_logout(request: Request, api: Api) -> Response:
    """End the login, wherever its cookie may have been copied to, and forget the cookie."""
    login, key = await login_of(request)
    if key is not None:
        await run_in_threadpool(end_login, api.database, key.tenant, login)
    response = go_to("login")
    response.delete_cookie(keyring.COOKIE_NAME, path=keyring.COOKIE_PATH, httponly=True, samesite="strict")
    return response


@login_router.get("/assets/{name}")
async def get_asset(name: str) -> Response:
    """Return the style sheet, htmx, or its license."""
    if name not in ASSETS:
        raise NotFound(f"there is no {name}")
    media = mimetypes.guess_type(name)[0] or "text/plain"
    return Response(ASSETS[name], media_type=media, headers={"Cache-Control": "max-age=600"})
