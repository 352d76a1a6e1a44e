"""The cookie of a login: the digest of a key, sealed so that every process of the deployment can open it.

It contains no key, and the keyring refuses a revoked one, as in a header. Only a login's end is stored, as a hash on
the suppression list.
"""

import base64
import hmac
import re
import secrets
from collections.abc import Iterable

from cryptography.fernet import Fernet, InvalidToken

NAME = "backscroll_inspector"
PATH = "/inspect"
SECONDS = 12 * 3600
_OWN = re.compile(rb"(?:^|;) *(%b=[\w=-]{0,500})" % NAME.encode())


def own_only(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Leave other cookies out of headers: Python takes seconds to unquote one of many backslashes, for any request."""
    return [(name, b";".join(_OWN.findall(value)) if name == b"cookie" else value) for name, value in headers]


class Seal:
    """Seals and opens digests with a secret derived from the deployment's key."""

    def __init__(self, api_key: str) -> None:
        derived = hmac.digest(api_key.encode(), b"backscroll inspector cookie", "sha256")
        self._fernet = Fernet(base64.urlsafe_b64encode(derived))

    def seal(self, digest: bytes) -> str:
        """Return the cookie's value, of a new login."""
        return self._fernet.encrypt(digest + secrets.token_bytes(12)).decode()

    def open(self, value: str) -> tuple[bytes, bytes] | None:
        """Return the login and its digest of a value that was sealed within the last `SECONDS`; else None."""
        try:
            login = self._fernet.decrypt(value.encode(), ttl=SECONDS)
        except InvalidToken:
            return None
        return login, login[:32]
