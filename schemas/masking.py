"""Mask credentials of well-known shapes in whatever is written to Backscroll, before anything is made of it.

The shapes are redact-secret's, which says where a credential stands and never what it is; card numbers are told by
their check digit. A password that people tell each other has no shape, and stays.
"""

import re
import string
from collections.abc import Callable
from typing import Any, Literal

import redact_secret

MASKED = "[masked: "
"""How a mask begins: `[masked: github token]`."""
# no credential is shorter, and most names and short texts are
_SHORTEST = 12
# a name and a value such as `token: 3f2a…`: what follows may be anything
_BY_CONTEXT = "contextual_secret"
# as it is printed on cards, with their first digits, in groups or in one; no part of a longer number, IBAN or word
_CARD = re.compile(
    r"(?<![A-Za-z0-9_./+-])(?<!\d{4}[ \u00a0])(?<![A-Z]\d\d[ \u00a0])(?:"
    r"(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|35\d\d|6(?:011|[245]\d\d))([ \u00a0-]?)\d{4}\1\d{4}\1\d{4}"
    r"|3[47]\d\d([ \u00a0-]?)\d{6}\2\d{5}|3(?:0[0-5]|[68]\d)\d([ \u00a0-]?)\d{6}\3\d{4}"
    r")(?![A-Za-z0-9_/-]|[.,:]\d|[ \u00a0]\d)"
)
# what redact-secret does not know: each vendor states how its tokens begin
_UNKNOWN_SHAPES = re.compile(
    r"(?<![\w+-])(?:(?P<backscroll_key>bks_[\w-]{43})(?![\w-])"
    r"|(?P<discord_token>[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38})(?![\w.-])"
    # not within a picture in Base64
    r"|(?<!/)(?P<meta_token>EAA(?=[A-Za-z]*[0-9])[A-Za-z0-9]{80,})"
    r"|(?<!/)(?P<google_token>(?:ya29\.|1//0)[\w-]{40,})"
    r"|(?P<api_key>(?:sk-(?=[A-Za-z]*[0-9])|shpss_)[A-Za-z0-9]{32,}|(?:xkeysib|tskey-(?:auth|api|client))-[\w-]{32,})"
    r"|(?P<access_token>(?:figd|sntrys|fo1|pscale_(?:tkn|pw|oauth)|syt|mct|tfp|CFPAT)[_-]"
    r"(?=[\w-]*[0-9])(?=[\w-]*[A-Z])[\w=+-]{28,})"
    r"|(?P<secret_key>AGE-SECRET-KEY-1[A-Z0-9]{58}|nsec1[a-z0-9]{58}|xprv[A-Za-z0-9]{107})(?!\w))"
    r"|(?P<webhook>(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks"
    r"|hooks\.zapier\.com/hooks/catch|webhook\.office\.com/webhookb2)/[\w/@-]{14,240})",
    re.ASCII,
)
_LONGEST_NAME = 64
# a private key of which the rest is in another message
_EDGE = re.compile(r"-----(BEGIN|END) [A-Z ]{0,40}PRIVATE KEY[A-Z ]{0,40}-----")
_OF_KEYS, _LEAST_OF_KEY = string.ascii_letters + string.digits + "+/=\r\n", 64
# the end of a sentence, which is no part of a token with dots
_FULL_STOP = re.compile(r"\.(?=\s|$)")
# a line's end or tab as JSON and code write it, whose letter is no part of what follows
_ESCAPED_SPACE = re.compile(r"\\[nrt]")
# Where a JSON Web Token may begin, redact-secret reads to the end of the word: of a word with thousands, for seconds.
_BEGINS_JWT, _MOST_JWTS = "eyJ", 64
_WITHIN_A_WORD = re.compile(f"(?<=[A-Za-z0-9_-]){_BEGINS_JWT}")
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
    scanned = _ESCAPED_SPACE.sub("  ", _FULL_STOP.sub(" ", text))
    if scanned.count(_BEGINS_JWT) > _MOST_JWTS:
        scanned = _WITHIN_A_WORD.sub("xxx", scanned)
    found = [f for f in redact_secret.scan(scanned) if f.type != _BY_CONTEXT]
    for finding in reversed(found):
        secret = text[finding.start : finding.end]
        if secret.isalpha() and text.endswith(f"/{secret}:", 0, finding.start):
            # what is delivered with the name as its password: `postgres:postgres@localhost`
            continue
        text = f"{text[: finding.start]}{_note(finding.type)}{text[finding.end :]}"
    text = _replaced(_UNKNOWN_SHAPES, text, lambda found: _note(str(found.lastgroup)))
    for edge in reversed([*_EDGE.finditer(text)]):
        text = _without_half(text, edge)
    return _replaced(_CARD, text, lambda card: _note("card number") if _checks(card[0]) else card[0])


def _replaced(shape: re.Pattern[str], text: str, note: Callable[[re.Match[str]], str]) -> str:
    parts, at = [], 0
    for found in shape.finditer(_ESCAPED_SPACE.sub("  ", text)):
        parts += [text[at : found.start()], note(found)]
        at = found.end()
    return "".join([*parts, text[at:]])


def masked_json(value: Any, name: str = "") -> Any:
    """Mask all texts and keys of a JSON value, each text as `key=text`, as the key may tell what it is."""
    if isinstance(value, str):
        # the end of a long name tells as much
        given = f"{name[-_LONGEST_NAME:]}="
        named = masked(given + value) if name else ""
        return named.removeprefix(given) if named.startswith(given) else masked(value)
    if isinstance(value, dict):
        return {masked(str(key)): masked_json(inner, str(key)) for key, inner in value.items()}
    return [masked_json(inner, name) for inner in value] if isinstance(value, list | tuple) else value


def has_mask(text: str) -> bool:
    """Tell whether something was masked in a text."""
    return MASKED in text


def _note(kind: str) -> str:
    return f"{MASKED}{kind.replace('_', ' ')}]"


def _without_half(text: str, edge: re.Match[str]) -> str:
    """Mask the part of a private key after its beginning or before its end; the other is missing."""
    before, after = text[: edge.start()], text[edge.end() :]
    if edge[1] == "BEGIN":
        rest = after.lstrip(_OF_KEYS)
        return text if len(after) - len(rest) < _LEAST_OF_KEY else f"{before}{_note('private key')}{rest}"
    rest = before.rstrip(_OF_KEYS)
    return text if len(before) - len(rest) < _LEAST_OF_KEY else f"{rest}{_note('private key')}{after}"


def _checks(card: str) -> bool:
    """Tell whether the last digit of a card's number is right (Luhn)."""
    digits = [int(digit) for digit in card if digit.isdigit()]
    doubled = (digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
