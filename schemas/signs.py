"""What people see as one sign, nearly the grapheme clusters of UAX #29, and what they do not see."""

import re
from itertools import groupby
from unicodedata import category

SELECTORS, JOINERS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef", "\u200c\u200d"
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
"""Unicode's Default_Ignorable_Code_Point, by its ranges, in which nothing that is seen will ever be."""
UNSEEN = re.compile(f"[{IGNORABLE}{SELECTORS}]")
_CODES = [n for n in range(0x300, 0x20000) if category(chr(n)) in ("Mn", "Mc") and not UNSEEN.match(chr(n))]
_RUNS = [[n for _, n in run] for _, run in groupby(enumerate(_CODES), lambda placed: placed[1] - placed[0])]
# as ranges, which are compared twice as fast
MARKS = "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in _RUNS)
"""Signs that are a part of the letter before them, as in Devanagari, Arabic or Thai; `\\w` has none of them."""
# what else is: enclosing marks, vowels of Thai, Lao and Hangul, tones of emoji; no more of them than is read at once
_MORE = "\u0488\u0489\u0e33\u0eb3\u1160-\u11ff\u20dd-\u20e4\ua670-\ua672\ud7b0-\ud7fb\uff9e\uff9f\U0001f3fb-\U0001f3ff"
_AROUND = f"[{MARKS}{SELECTORS}{JOINERS}{IGNORABLE}{_MORE}]{{0,50}}+"
# what stacks the next letter below the one before
_STACKS = "\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d\u0dca\u1039\u17d2\u1a60\u1b44\u1bab\ua9c0\U00010a3f\U00011133\U00011a47"
_NEXT = rf"(?:(?<=[{_STACKS}])|(?<=[{_STACKS}]\u200d))\w|(?<=\u200d)[\u2190-\u2bff\u3030\u303d\U0001f000-\U0001faff]"
_FLAGS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_FIRST = rf"[{_FLAGS}]{{2}}|[\u0600-\u0605\u06dd\u1100-\u115f\ua960-\ua97c]{{0,9}}."
SIGN = re.compile(rf"\r\n|(?:{_FIRST}){_AROUND}(?:(?:{_NEXT}){_AROUND}){{0,9}}+", re.DOTALL)
"""A letter with all that is written around it, a flag, an emoji of several; or any other character."""
MAX_SIGN_CHARS = 64  # a longer one may be torn apart


def border(text: str, at: int) -> int:
    """Return the last place up to `at` where a text may be cut without tearing a sign apart."""
    start = len(text[: max(at - MAX_SIGN_CHARS, 0)].rstrip(_FLAGS))  # flags are pairs, from the first on
    return at if at >= len(text) else max(sign.start() for sign in SIGN.finditer(text, start, at + 1))
