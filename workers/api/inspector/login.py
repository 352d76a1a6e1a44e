"""Log in with an API key, and log out; serve the style sheet and htmx, which the login page needs, too."""

import mimetypes

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from pipeline.people.api_keys import digest_of, end_login
from schemas.base import Frozen
from schemas.errors import NotFound
from workers.api.admission import permit
from workers.api.inspector import cookie
from workers.api.inspector.pages import ASSETS, Form, PageRoute, go_to, login_of, page
from workers.api.scopes import READ_PAGE
from workers.api.state import Api

router = APIRouter(prefix="/inspect", route_class=PageRoute, include_in_schema=False)


class Login(Frozen):
    """The login form."""

    key: str = ""
    next: str = ""


@router.get("/login")
async def get_login(request: Request, next: str = "") -> Response:  # noqa: A002 - a field of the form
    """Ask for a key."""
    return page(request, "login", next=next, refused=False)


@router.post("/login")
async def post_login(request: Request, api: Api, login: Form[Login]) -> Response:
    """Accept a key that may read, and keep its digest in the cookie."""
    secret = login.key.strip()
    key = await api.keyring.find(secret) if secret else None
    if key is None:
        return page(request, "login", 401, next=login.next, refused=True)
    permit(request, key, READ_PAGE)
    # only a path of ours, never another site's address
    inside = login.next.startswith(f"{cookie.PATH}/") and "\\" not in login.next and ".." not in login.next
    response = go_to(login.next.removeprefix(f"{cookie.PATH}/") if inside else "chats")
    response.set_cookie(
        cookie.NAME,
        api.seal.seal(digest_of(secret)),
        max_age=cookie.SECONDS,
        path=cookie.PATH,
        # the page knows how the browser reached it, also through a proxy that is not trusted
        secure="https" in (request.url.scheme, request.headers.get("origin", "").partition(":")[0]),
        httponly=True,
        samesite="strict",
    )
    return response


@router.post("/logout")
async def post_logout(request: Request, api: Api) -> Response:
    """End the login, wherever its cookie may have been copied to, and forget the cookie."""
    login, key = await login_of(request)
    if key is not None:
        await run_in_threadpool(end_login, api.database, key.tenant, login)
    response = go_to("login")
    response.delete_cookie(cookie.NAME, path=cookie.PATH, httponly=True, samesite="strict")
    return response


@router.get("/assets/{name}")
async def get_asset(name: str) -> Response:
    """Return the style sheet, htmx, or its license."""
    if name not in ASSETS:
        raise NotFound(f"there is no {name}")
    media = mimetypes.guess_type(name)[0] or "text/plain"
    return Response(ASSETS[name], media_type=media, headers={"Cache-Control": "max-age=600"})
