"""Read what people wrote off structured content: blocks, forms, cards and quotations."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from pipeline.platforms.fields import name_of, text_of

# the keys of what people write; a text inside a text's own parts stands under one of them, too
_WRITTEN = frozenset(
    "text title subtitle caption credit author description source formula question additional_prize option comment "
    "body note message".split()
)
_LAST_WORD = re.compile(r"(?:.*_|.*[a-z](?=[A-Z]))?(.*)", re.DOTALL)
# placeholders for things without words
_SHOWN = frozenset(("photo_id", "document_id", "geo", "unsupported"))


def is_written(key: str) -> bool:
    """Return whether what people write stands under a key: its last word tells, as in `hydratedContentText`."""
    match = _LAST_WORD.fullmatch(key)
    return key in _WRITTEN or (match is not None and match[1].lower() in _WRITTEN)


def words(value: object, key: str = "") -> str:
    """Return the texts in a value of JSON that stands under this key, whatever shape is around them.

    >>> words([{"type": "heading", "text": "Fees"}, {"cells": [{"text": ["340 ", {"text": "€"}]}, {"text": "May"}]}])
    'Fees\\n340 € | May'
    """
    if isinstance(value, list):
        # a text in parts of different formatting, a row of a table, or blocks
        joint = "" if is_written(key) else " | " if key == "cells" else "\n"
        return joint.join(filter(None, (words(part, key) for part in value)))
    if not isinstance(value, dict):
        return str(value) if is_written(key) and value is not None and not isinstance(value, bool) else ""
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


def answers(written: object) -> str:
    """Return the answers of a form that comes as JSON in a text, a line for each.

    >>> answers('{"allergy": "nuts", "days": ["Mon", "Tue"], "home": {"city": "Faro"}, "flow_token": "x"}')
    'allergy: nuts\\ndays: Mon, Tue\\ncity: Faro'
    """
    try:
        form = json.loads(written) if isinstance(written, str) else written
    except (ValueError, RecursionError):
        return text_of(written)
    return "\n".join(_answers(form, "")) if isinstance(form, dict) else ""


def _answers(value: object, name: str) -> Iterator[str]:
    """Yield the answers in a form; a file is told by its name, and what only the form's machinery reads is not."""
    match value:
        case {"file_name": str() as file}:
            yield f"{name}: {file}"
        case dict():
            for key, held in value.items():
                if not key.endswith(("_token", "_id", "_version")):
                    yield from _answers(held, str(key))
        case list():
            if all(isinstance(item, str | int | float) for item in value):
                yield from _answers(", ".join(map(str, value)), name)
            else:
                for item in value:
                    yield from _answers(item, name)
        case bool():
            yield f"{name}: {'yes' if value else 'no'}"
        case str() | int() | float() if str(value).strip():
            yield f"{name}: {value}"


def quoted(text: str, author: object = None) -> str:
    """Return a text as a quotation, after its author's name if there is one; empty for an empty text.

    >>> quoted("It is here\\nand warm", "Zoë")
    '> Zoë: It is here\\n> and warm'
    """
    by = f"{name}: " if (name := name_of(author)) else ""
    return "\n".join(f"> {line}" for line in f"{by}{text}".splitlines()) if text else ""


def card(name: object, *reached: object) -> str:
    """Return the name on a contact's card, and how the person is reached; empty without that.

    >>> card("Ọlá", "+234 1", None, "o@la.ng"), card("Ọlá", "")
    ('Ọlá: +234 1, o@la.ng', '')
    """
    found = ", ".join(filter(None, map(text_of, reached)))
    return ": ".join(filter(None, (name_of(name), found))) if found else ""


def location(latitude: object, longitude: object, *names: object) -> str:
    """Describe a place by its name or address, otherwise by its coordinates."""
    return f"[location {name_of(*names) or f'{latitude}, {longitude}'}]"
