"""Mask credentials of well-known shapes in whatever is written to Backscroll, before anything is made of it.

The shapes are redact-secret's, which says where a credential stands and never what it is; card numbers are told by
their check digit. A password that people tell each other has no shape, and stays.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Literal

import redact_secret

MASKED = "[masked: "
"""How a mask begins: `[masked: github token]`."""
# no credential is shorter, and most names and short texts are
_SHORTEST = 12
# found otherwise, or not to be masked: `token: 3f2a…` may be followed by anything
_NOT_TAKEN = {"contextual_secret", "connection_string_password"}
# as printed on cards, with their first digits; no part of a longer number, IBAN or word; its last month may follow
_SPACE = " \u00a0\u2007\u2009\u202f"
_GAP = rf"([{_SPACE}\u2010-\u2013-]?)"
_CARD = re.compile(
    rf"(?<![A-Za-z0-9_./+-])(?<!\d{{4}}[{_SPACE}])(?<![A-Z]\d\d[{_SPACE}])(?:"
    rf"(?:4\d{{3}}|5[1-5]\d\d|2[2-7]\d\d|35\d\d|6(?:011|[245]\d\d)){_GAP}\d{{4}}\1\d{{4}}\1\d{{4}}"
    rf"|3[47]\d\d{_GAP}\d{{6}}\2\d{{5}}|3(?:0[0-5]|[68]\d)\d{_GAP}\d{{6}}\3\d{{4}}"
    rf")(?![A-Za-z0-9_/-]|[.,:{_SPACE}\u2010-\u2013]\d(?!\d?[/-]\d\d|\d{{3}}[/-]\d\d))"
)
# what redact-secret does not know: each vendor states how its tokens begin; not within a picture in Base64
_UNKNOWN_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?<![A-Za-z0-9+/]{64})(?:(?P<backscroll_key>bks_[\w-]{43})(?![\w-])"
    r"|(?P<discord_token>[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38})(?![\w.-])"
    r"|(?P<meta_token>EAA(?=[A-Za-z]*[0-9])[A-Za-z0-9]{80,})|(?P<google_token>(?:ya29\.|1//0)[\w-]{40,})"
    r"|(?P<api_key>(?:sk-(?=[A-Za-z]*[0-9])|shpss_)[A-Za-z0-9]{32,}|(?:xkeysib|tskey-(?:auth|api|client))-[\w-]{32,})"
    r"|(?P<access_token>(?:figd|sntrys|fo1|pscale_(?:tkn|pw|oauth)|syt|mct|tfp|CFPAT|pcsk|jina)[_-]"
    r"(?=[\w-]{0,99}[0-9])(?=[\w-]{0,99}[A-Z])[\w=+-]{28,})"
    r"|(?<=AccountKey=)(?P<storage_key>[A-Za-z0-9+/]{86}==)"
    r"|(?P<secret_key>AGE-SECRET-KEY-1[A-Z0-9]{58}|nsec1[a-z0-9]{58}|xprv[A-Za-z0-9]{107})(?!\w))"
    r"|(?P<webhook>(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks"
    r"|hooks\.zapier\.com/hooks/catch|webhook\.office\.com/webhookb2)/[\w/@-]{14,240})",
    re.ASCII,
)
# `x://user:password@host` of any scheme, or the same percent-encoded; neither a port nor what stands for a password, as
# words or variables do, nor at a host for examples, nor delivered with the name as password: `postgres:postgres@db`
_PASSWORD = re.compile(
    r"(?<=\w)(?:(%(?:25)*3A)|:)(?:\\?/|%(?:25)*2F){2}(?P<user>(?:(?!%(?:25)*3A)[^\s:/?#@\"'<>`\\\[]){0,128}+)"
    r"(?(1)%(?:25)*3A|:)(?!\d{1,5}[?#&,;)])(?!(?:(?=[a-z]+@)(?P=user)"
    r"|(?:my|your|db|secret|pass(?:word|wd|phrase)?|pwd?|user(?:name)?|[x_.*…•-])+"
    r"|[$#%]?[{(\[][^\s@]{0,256}|\$[a-z_]{1,64}\d?|%\w{1,64}%?)@)"
    r"(?P<connection_string_password>(?:(?(1)(?!%(?:25)*2F))(?:[^\s/\"'<>`\\]|\\u)){1,256})(?(1)%(?:25)*40|@)"
    r"(?=[^\s/@])(?!(?:[\w-]{1,63}\.){0,5}(?:example(?:\.(?:com|net|org))?|test|invalid)(?![\w.-]))",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Z]?[a-z]+(?:[_-](?:[A-Z]?[a-z]+|[A-Z]+))+")
# a private key, the rest of which may be in another message: lines of Base64 and headers in whatever quotes them
_EDGE = re.compile(r"----[- ](BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,40}[- ]----")
_QUOTED, _BASE64, _LEAST_OF_KEY = r"(?:[\s>#|\"'+\\,*]|-(?!-))*+", "[A-Za-z0-9+/=]{16,}", 64
_BODY = re.compile(
    rf"(?:{_QUOTED}(?:[A-Z][A-Za-z-]{{2,30}}: [^\n]{{0,200}}+|{_BASE64}+))*+"
    rf"(?:{_QUOTED}[A-Za-z0-9+/=]{{0,15}}(?:{_QUOTED}----[- ]END [A-Z0-9 ]{{0,80}}[- ]----|\Z))?"
)
# a sign as URLs, JSON and code write it, and the end of a sentence, which is no part of a token with dots
_WRITTEN = re.compile(r"%(?:25)*([0-7][0-9A-Fa-f])|\\u00([0-7][0-9A-Fa-f])|\\[nrt]|(?<!\.)\.++(?=\s|\Z)")
# what is joined with a token: the first part of a long name, or an underscore after it
_JOINED, _MOST_JOINED = re.compile(r"(?<![\w.:-])(?=[\w.:-]{20})([^\W_]*+)[_.:-]|(?<=\w)[_-](?![\w-])"), 4
# redact-secret reads long lines once for some of their words, and words once for each `eyJ`: for seconds
_PIECE = re.compile(r".{1000}[^\n]{0,1000}+\S*+|.+", re.DOTALL)
_WITHIN_A_WORD = re.compile("(?<=[A-Za-z0-9_-])eyJ")
MAX_JSON_DEPTH, _LONGEST_NAME = 64, 64
_Span = tuple[int, int, str]
_Change = Callable[[str], str]
_mode: Literal["mask", "keep"] = "mask"


def use(mode: Literal["mask", "keep"]) -> None:
    """Mask from now on in this process, or keep everything: `BACKSCROLL_SECRETS`, once it is loaded."""
    global _mode
    _mode = mode


def masked(text: str) -> str:
    """Return a text with a note of its kind in the place of each credential.

    >>> masked("card 4111 1111 1111 1111, order 4111 1111 1111 1112")
    'card [masked: card number], order 4111 1111 1111 1112'
    """
    if _mode == "keep" or len(text) < _SHORTEST:
        return text
    # of the same length, so that what is found there is here
    plain = _WRITTEN.sub(lambda sign: chr(int(sign[1] or sign[2] or "0a", 16)).rjust(len(sign[0])), text)
    parts, at = [], 0
    for start, end, kind in sorted([*_known(plain), *_shaped(plain, text), *_of_keys(plain)]):
        if start >= at:
            parts += [text[at:start], f"{MASKED}{kind.replace('_', ' ')}]"]
        at = max(at, end)
    return "".join([*parts, text[at:]])


def _known(plain: str) -> Iterator[_Span]:
    for _ in range(1 + _MOST_JOINED):
        for piece in _PIECE.finditer(plain):
            for found in redact_secret.scan(_WITHIN_A_WORD.sub("xxx", piece[0])):
                if found.type not in _NOT_TAKEN and not _is_placeholder(piece[0][found.start : found.end]):
                    yield piece.start() + found.start, piece.start() + found.end, found.type
        plain, joined = _JOINED.subn(r"\1 ", plain)
        if not joined:
            return


def _shaped(plain: str, text: str) -> Iterator[_Span]:
    for found in (*_UNKNOWN_SHAPES.finditer(plain), *_PASSWORD.finditer(text)):
        kind = str(found.lastgroup)
        if found.re is _PASSWORD or not _is_placeholder(found[kind]):
            yield *found.span(kind), kind
    for card in _CARD.finditer(plain):
        digits = [int(digit) for digit in reversed(card[0]) if digit.isdigit()]
        if sum(digits[::2] + [2 * digit - 9 * (digit > 4) for digit in digits[1::2]]) % 10 == 0:  # Luhn
            yield *card.span(), "card number"


def _of_keys(plain: str) -> Iterator[_Span]:
    backwards = plain[::-1]
    for edge in _EDGE.finditer(plain):
        begins = edge[1] == "BEGIN"
        body = _BODY.match(*(plain, edge.end()) if begins else (backwards, len(plain) - edge.start()))
        if body and sum(map(len, re.findall(_BASE64, body[0]))) >= _LEAST_OF_KEY:
            span = (edge.start(), body.end()) if begins else (len(plain) - body.end(), edge.end())
            yield *span, "private key"


def _is_placeholder(token: str) -> bool:
    # of words, or half of it of one sign or of signs in their order
    steps = sum(0 <= ord(after) - ord(before) <= 1 for before, after in pairwise(token))
    return 2 * steps >= len(token) or _WORDS.fullmatch(token) is not None


def masked_json(value: Any, name: str = "", most: int | None = None, change: _Change = masked) -> Any:
    """Mask all texts and keys of JSON, each text as `key=text`. Raises ValueError if it has more than `most` levels."""
    whole = [value]
    todo: list[tuple[Any, Any, str, int]] = [(whole, 0, name, 0)]
    while todo:
        within, at, key, depth = todo.pop()
        value = within[at]
        if depth == most and isinstance(value, dict | list):
            raise ValueError(f"{name} is nested deeper than {most} levels".lstrip())
        if isinstance(value, str):
            # the end of a long name tells as much
            given = f"{key[-_LONGEST_NAME:]}="
            named = change(given + value) if key else ""
            within[at] = named.removeprefix(given) if named.startswith(given) else change(value)
        elif isinstance(value, dict):
            within[at] = inside = {change(str(key)): inner for key, inner in value.items()}
            todo += ((inside, key, key, depth + 1) for key in inside)
        elif isinstance(value, list | tuple):
            within[at] = [*value]
            todo += ((within[at], n, key, depth + 1) for n in range(len(value)))
    return whole[0]


def has_mask(text: str) -> bool:
    """Tell whether something was masked in a text."""
    return MASKED in text
