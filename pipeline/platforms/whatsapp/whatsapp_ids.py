"""Ids of people in WhatsApp's exports."""

import re

from pipeline.platforms.identity import sender_by_name

# With any blanks, dashes, brackets and marks between the figures: phones differ, and so do their versions.
_PHONE = re.compile(r"[+\uff0b]\W*(?:\d\W*){6,15}")


def sender_id(chat_id: str, name: str) -> str:
    """Return the id of who has this name in an export of a chat: a phone number is a person everywhere.

    >>> sender_id("whatsapp:Trip", "+49 170 1234567"), sender_id("whatsapp:Trip", "Ana Lima")
    ('whatsapp:491701234567', 'whatsapp:Ana Lima@Trip')
    """
    return number_id(name) or sender_by_name("whatsapp", chat_id, name)


def number_id(name: str) -> str | None:
    """Return `whatsapp:` and the digits of a phone number, as WhatsApp's own id; None for any other name.

    >>> number_id("+49 170 1234567"), number_id("Ana Lima")
    ('whatsapp:491701234567', None)
    """
    if not _PHONE.fullmatch(name):
        return None
    return "whatsapp:" + "".join(str(int(character)) for character in name if character.isdecimal())
