"""Letters without their accents, as most people type them on a telephone."""

import re
from unicodedata import normalize

# The same as in SQL, see migration 0012: marks above and below a letter, and letters with a stroke, which have none.
_MARKS = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u0309\u030a\u030b\u030c\u031b\u0323\u0326\u0327\u0328"
_PLAIN = str.maketrans("łŁøØđĐħĦı", "lLoOdDhHi", _MARKS)
_ACCENTED = re.compile("[\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff]")
_CYRILLIC = re.compile("[\u0400-\u052f]")


def without_accents(text: str) -> str:
    """Return a text without accents; in Cyrillic, where marks make other letters, it stays as it is.

    >>> without_accents("Zoë e José, żółw")
    'Zoe e Jose, zolw'
    """
    if text.isascii() or not _ACCENTED.search(text) or _CYRILLIC.search(text):
        return text
    return normalize("NFC", normalize("NFD", text).translate(_PLAIN))
