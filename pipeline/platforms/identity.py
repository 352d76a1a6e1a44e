"""Derive ids for imported messages and people without one, the same in every export of a chat."""

import hmac
import json
from collections import Counter
from collections.abc import Hashable, Iterable
from hashlib import blake2b
from urllib.parse import unquote

from schemas.messages import MAX_ID_CHARS

PREFIX = "import:"
"""Prefix of every derived id, so that it is never taken for a platform's own."""

_ESCAPES = str.maketrans({"%": "%25", "/": "%2F"})
_LEAST_PLACE = 20


def sender_by_name(platform: str, chat_id: str, name: str) -> str:
    """Return the id of a person known only by name: whoever has that name in that chat.

    The first `@` ends the name, so that no two chats share an id, and none holds a `/`, which would end it in the URLs
    of the HTTP API. A name or chat that is too long is cut, with a digest in place of the rest.

    >>> sender_by_name("whatsapp", "whatsapp:Trip", "Ana"), sender_by_name("signal", "app:room/7", "Zoë@home 50%")
    ('whatsapp:Ana@Trip', 'signal:Zoë%40home 50%25@app:room%2F7')
    """
    room = MAX_ID_CHARS - len(f"{platform}:@")
    name = _cut(name.translate(_ESCAPES).replace("@", "%40"), room - _LEAST_PLACE)
    place = chat_id.removeprefix(f"{platform}:").translate(_ESCAPES)
    return f"{platform}:{name}@{_cut(place, room - len(name))}"


def in_other_chat(sender_id: str, chat_id: str, other: str) -> str:
    """Return the id that a person known by name in a chat would have in another; other ids unchanged.

    >>> in_other_chat("whatsapp:Zoë@Trip", "whatsapp:Trip", "whatsapp:Rome"), in_other_chat("whatsapp:49", "a:b", "a:c")
    ('whatsapp:Zoë@Rome', 'whatsapp:49')
    """
    platform, _, rest = sender_id.partition(":")
    name = unquote(rest.partition("@")[0])
    by_name = sender_id == sender_by_name(platform, chat_id, name)
    return sender_by_name(platform, other, name) if by_name else sender_id


def _cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text[: room - len(digest) - 1]}~{digest}"


class ImportIds:
    """Ids made of hash(sender, local time, text, n-th occurrence).

    The n-th occurrence from the export's start tells repeated messages of one minute apart, so a longer export gives
    the same ids. The local time is hashed as it was read: correcting `--tz` on a second run duplicates nothing, and
    the ids by other readings of a date are aliases. An edited message, a renamed sender or a moved phone clock count
    as new.
    """

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def names(
        self, sender: str, local_time: str, text: str, other_times: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Return the next message's id, `import:` and 16 hexadecimal digits, then its ids at the other times."""
        digests = [_digest(sender, time, text) for time in (local_time, *other_times)]
        # messages equal in one reading of the time are equal in every reading
        self._seen[digests[0]] += 1
        occurrence = self._seen[digests[0]].to_bytes(8)
        hashes = (blake2b(occurrence, key=digest, digest_size=8) for digest in digests)
        return tuple(PREFIX + nth.hexdigest() for nth in hashes)


_KEYED = f"{PREFIX}k"


def is_hash(external_id: str) -> bool:
    """Tell whether a derived id was made of the message's text without a key, so that the text can be guessed."""
    return external_id.startswith(PREFIX) and not external_id.startswith(_KEYED)


def keyed(external_id: str, key: bytes) -> str:
    """Return the id, from which nothing can be guessed without the key, of a message that has such a hash."""
    return f"{_KEYED}{hmac.digest(key, external_id.encode(), 'sha256')[:8].hex()}"


def _digest(sender: str, local_time: str, text: str) -> bytes:
    # JSON keeps the parts apart: ("a", "b c") and ("a b", "c") must not meet
    return blake2b(json.dumps([sender, local_time, text]).encode(), digest_size=16).digest()


class Positions:
    """Positions among messages of the same time, from the start of the export.

    Of a minute that begins in the middle in one of two exports, messages may be stored in another order than written.
    """

    def __init__(self, remembered: int = 4096) -> None:
        # times come nearly in order; only the latest are kept, whatever the file's size
        self._remembered = remembered
        self._next: dict[Hashable, int] = {}

    def next(self, time: Hashable) -> int:
        """Return the position of the next message with this time, from 0."""
        position = self._next.pop(time, 0)
        self._next[time] = position + 1
        if len(self._next) > self._remembered:
            del self._next[next(iter(self._next))]
        return position
