"""JSON for small bodies, and for large ones: with limits, and so that other threads run meanwhile.

Every parser in C (Python's, orjson, pydantic's) holds the interpreter for the whole body: for 8 MiB of empty lists a
second, and the garbage collector as long again.
"""

import json
import math
import re
from collections.abc import Callable
from json.decoder import JSONArray, JSONObject, scanstring  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from schemas.errors import InvalidInput

MAX_VALUES, MAX_ITEMS, MAX_TEXT_CHARS, MAX_DIGITS = 200_000, 10_000, 2**21, 4000
"""Values in a large body, items of a list or an object, and the length of a text and a number: no model takes more."""
PIECE_CHARS = 16 * 1024
_LONG_NUMBER = re.compile(rf"[\d.eE+-]{{{MAX_DIGITS}}}")
_Scan = Callable[[str, int], tuple[Any, int]]


class YieldingDecoder(json.JSONDecoder):
    """Python's decoder without its part in C: other threads run between two values. For one body.

    Raises `InvalidInput` beyond the limits.
    """

    def __init__(self) -> None:
        super().__init__(parse_float=_finite, parse_constant=_finite)
        self._left = MAX_VALUES
        self.parse_object, self.parse_array, self.parse_string = self._object, self._array, self._text
        self.scan_once = py_make_scanner(self)

    def _object(self, start: Any, strict: bool, scan_once: _Scan, *rest: Any) -> Any:
        return JSONObject(start, strict, self._limited(scan_once), *rest)

    def _array(self, start: Any, scan_once: _Scan) -> Any:
        pieces: list[int] = []
        items, end = JSONArray(start, self._limited(scan_once, pieces))
        return items + [None] * (sum(pieces) - len(pieces)), end

    def _text(self, text: str, at: int, strict: bool) -> Any:
        value, end = scanstring(text, at, strict)
        if len(value) > MAX_TEXT_CHARS:
            raise _too_much(f"a text of {MAX_TEXT_CHARS} characters")
        return value, end

    def _limited(self, scan_once: _Scan, pieces: list[int] | None = None) -> _Scan:
        """Return `scan_once` for an object, or a list whose items beyond the limit are only counted, in pieces."""
        left = MAX_ITEMS

        def scan(text: str, at: int) -> tuple[Any, int]:
            nonlocal left
            left, self._left = left - 1, self._left - 1
            if left < 0 and pieces is not None and (piece := _piece(text, at)) is not None:
                pieces.append(piece[0])
                return None, piece[1]
            if left < 0 and pieces is None:
                raise _too_much(f"{MAX_ITEMS} fields in an object")
            if self._left < 0:
                raise _too_much(f"{MAX_VALUES} values")
            if _LONG_NUMBER.match(text, at):
                raise _too_much(f"{MAX_DIGITS} digits in a number")
            return scan_once(text, at)

        return scan


def _too_much(limit: str) -> InvalidInput:
    return InvalidInput(f"the body holds more than {limit}", field="body")


def _piece(text: str, at: int) -> tuple[int, int] | None:
    """Return how many items of a list a piece of a text holds, and where it ends; None if the next item is longer."""
    end = text.rfind(",", at, at + PIECE_CHARS)
    try:
        # whatever is a list of whole values by itself is one in its place, too
        count = len(FAST_DECODER.decode(f"[{text[at:end]}]")) if end > at else 0
    except json.JSONDecodeError:
        count = 0
    return (count, end) if count else None


def _finite(digits: str) -> float:
    """Parse a number, refusing NaN and infinity, which Python accepts but JSON and Postgres do not."""
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is not finite")
    return number


FAST_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
