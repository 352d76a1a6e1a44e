"""Write polls, places, cards and other structured content as text."""

import json
from contextlib import suppress

from pipeline.platforms import fields

# the keys of what people write; a text inside a text's own parts stands under one of them, too
_WRITTEN = frozenset(
    "text title caption credit author description source formula old_text question additional_prize gift_text option "
    "comment body contentText hydratedContentText".split()
)
# placeholders for things without words
_SHOWN = frozenset(("photo_id", "document_id", "geo", "unsupported"))


def words(value: object, key: str = "") -> str:
    """Return the texts in a value of JSON that stands under this key, whatever shape is around them.

    >>> words([{"type": "heading", "text": "Fees"}, {"cells": [{"text": ["340 ", {"text": "€"}]}, {"text": "May"}]}])
    'Fees\\n340 € | May'
    """
    if isinstance(value, list):
        # a text in parts of different formatting, a row of a table, or blocks
        joint = "" if key in _WRITTEN else " | " if key == "cells" else "\n"
        return joint.join(filter(None, (words(part, key) for part in value)))
    if not isinstance(value, dict):
        return str(value) if key in _WRITTEN and value is not None and not isinstance(value, bool) else ""
    text = "\n".join(filter(None, (words(part, name) for name, part in value.items())))
    link = value.get("href")
    if isinstance(link, str) and link != text:
        text = f"{text} ({link})"
    return text or (f"[{value.get('type')}]" if value.keys() & _SHOWN else "")


def labelled(label: str, value: object, shown: str = "") -> str:
    """Return the texts in a thing after a label for it; `shown` if there are none.

    >>> labelled("checklist", {"title": "Regatta", "answers": [{"text": "ropes"}, {"text": "sails"}]})
    '[checklist] Regatta: ropes / sails'
    """
    if isinstance(value, str) and value.startswith("{"):
        # Telegram Desktop writes an invoice as JSON in a string
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    head = ""
    if isinstance(value, dict):
        head = words(value.get("title") or value.get("question"), "title")
        value = {**value, "title": "", "question": ""}
    parts = words(value, "" if isinstance(value, dict | list) else "text").split("\n")
    content = ": ".join(filter(None, (head, " / ".join(filter(None, parts)))))
    return f"[{label}] {content}" if content else shown


def location(latitude: object, longitude: object, *names: object) -> str:
    """Describe a place by its name or address, otherwise by its coordinates."""
    return f"[location {fields.name_of(*names) or f'{latitude}, {longitude}'}]"
