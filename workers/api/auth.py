"""Who may come in: one API key, sent as `Authorization: Bearer …`."""

import hmac
from hashlib import sha256
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from workers.api.door import Door, HeldDoor, door_of
from workers.api.errors import HttpError

_BEARER = HTTPBearer(auto_error=False, description="The value of BACKSCROLL_API_KEY.")


# async, as it only compares: a plain function would be sent to a thread for it
async def _authorize(
    door: HeldDoor,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
) -> str:
    return _tenant(door, credentials)


async def authorize(request: Request) -> str:
    """The tenant that the request's key opens, for an endpoint without dependencies. Raises `HttpError`."""
    return _tenant(door_of(request), await _BEARER(request))


SECURED: dict[str, Any] = {"security": [{_BEARER.scheme_name: []}]}
"""What such an endpoint's description says."""


def _tenant(door: Door, credentials: HTTPAuthorizationCredentials | None) -> str:
    if credentials is None:
        raise _unauthorized("There is no API key: send it as `Authorization: Bearer …`.")
    if not _equal(credentials.credentials, door.api_key):
        raise _unauthorized("The API key is not the BACKSCROLL_API_KEY of this deployment.")
    return door.settings.tenant


def _equal(given: str, wanted: str) -> bool:
    """Whether both are the same, in a time that tells nothing about either; digests hide the length too."""
    digests = [sha256(key.encode("utf-8", "surrogatepass")).digest() for key in (given, wanted)]
    return hmac.compare_digest(*digests)


def _unauthorized(detail: str) -> HttpError:
    return HttpError(401, "unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="backscroll"'})


# The tenant that the caller's key opens.
Tenant = Annotated[str, Depends(_authorize)]
