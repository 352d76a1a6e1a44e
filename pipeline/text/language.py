"""Detect the languages that texts are written in."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cache
from typing import TYPE_CHECKING

from pipeline.text.accents import LETTERS
from schemas.languages import CODES, MAX_PARTS

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

MAX_LETTERS = 200
"""Letters of one text that count: a pasted article is no more than a long message."""
MIN_LETTERS = 40
"""Letters that all texts must have together."""
MIN_VOTE = 12
"""Letters that a text needs to vote by itself."""
MIN_SHARE, MIN_TEXTS = 0.2, 4
"""Share of the letters, and number of texts, that a further language needs."""
MIN_SHARE_OF_RELATIVE = 0.35
"""Share that a language needs if it is often mistaken for the commonest."""
DENSE = 3
"""Letters of an alphabet that one sign of Han, kana or Hangul counts for."""

# Languages that are never detected, only declared: short texts in a larger language look like them.
_DECLARED_ONLY = {"afrikaans", "galician", "malay", "tagalog", "swahili"}
_RELATIVES = (
    {"danish", "norwegian", "swedish"},
    {"czech", "slovak", "slovenian", "croatian", "serbian", "polish"},
    {"russian", "ukrainian", "belarusian", "bulgarian", "macedonian", "serbian", "kazakh"},
    {"spanish", "catalan", "portuguese", "italian", "romanian", "french"},
    {"hindi", "marathi", "nepali"},
    {"arabic", "persian", "urdu"},
    {"dutch", "german", "yiddish"},
    {"chinese", "japanese"},
    {"turkish", "azerbaijani"},
    {"finnish", "estonian"},
)
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NO_WORDS = re.compile(r"`[^`\n]*`|https?://\S+|www\.\S+|[@#][\w.-]+|:\w+:")
_WORD = re.compile(rf"{LETTERS}(?:['’]{LETTERS})*")
_DENSE = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff]")


def detect(texts: Iterable[str]) -> str | None:
    """Return the languages that most of these texts are in, the commonest first, or None if they do not tell.

    Each text votes with its letters, without links, code, names that are addressed and emoji; a second or third
    language counts if it has a good share.

    >>> detect(["Wann kommst du denn morgen nach Hause?", "Ich bin so gegen acht Uhr da, vielleicht etwas später."])
    'german'
    >>> detect(["ok", "https://example.org/a-long-address-in-english"]) is None
    True
    """
    plain = [text for text in map(_plain, texts) if text]
    if sum(map(_size, plain)) < MIN_LETTERS:
        return None
    votes = _votes(plain, ())
    # vote again without languages that only a few short texts resemble
    likely = [code for code, share in _shares(votes).items() if share >= MIN_SHARE / 2]
    votes = _votes(plain, tuple(sorted(likely)))
    shares = _shares(votes)
    best = max(shares, key=lambda code: shares[code])
    if shares[best] < 1 / 3:
        return None
    named: dict[str, float] = defaultdict(float)
    texts_of: Counter[str] = Counter()
    for code, share in shares.items():
        named[CODES[code]] += share
        texts_of[CODES[code]] += len(votes[code])
    first = CODES[best]
    further = [
        name
        for name in sorted(named, key=lambda name: -named[name])
        if name != first and texts_of[name] >= MIN_TEXTS and named[name] >= _needed(name, first)
    ]
    return "+".join([first, *further][:MAX_PARTS])


def load_model() -> None:
    """Read the model, which the first detection would do otherwise."""
    _whole_model()


def _needed(name: str, first: str) -> float:
    related = any({name, first} <= family for family in _RELATIVES)
    return MIN_SHARE_OF_RELATIVE if related else MIN_SHARE


def _votes(plain: Sequence[str], codes: tuple[str, ...]) -> dict[str, list[int]]:
    """Return the sizes of the texts by language code, choosing among `codes`, or among all if empty."""
    model = _model(codes)
    votes: dict[str, list[int]] = defaultdict(list)
    for text in plain:
        if _size(text) >= MIN_VOTE:
            votes[model.classify(text)[0]].append(_size(text))
    if not votes:
        # short ones only
        together = " ".join(plain)
        votes[model.classify(together)[0]].append(_size(together))
    return votes


def _shares(votes: dict[str, list[int]]) -> dict[str, float]:
    total = sum(map(sum, votes.values()))
    return {code: sum(sizes) / total for code, sizes in votes.items()}


def _plain(text: str) -> str:
    """Return the first words of a text, without code, links and the like."""
    words, size = [], 0
    for match in _WORD.finditer(_NO_WORDS.sub(" ", _CODE_BLOCK.sub(" ", text))):
        words.append(match[0][:MAX_LETTERS])
        size += len(words[-1])
        if size >= MAX_LETTERS:
            break
    return " ".join(words)


def _size(plain: str) -> int:
    return len(plain) - plain.count(" ") + (DENSE - 1) * len(_DENSE.findall(plain))


@cache
def _whole_model() -> "LanguageIdentifier":
    # 5 MB and a second of reading: only where a language is detected
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE)
    detected = {code for code, name in CODES.items() if name not in _DECLARED_ONLY}
    model.set_languages(detected & set(model.labels))
    return model


def _model(codes: tuple[str, ...]) -> "LanguageIdentifier":
    """Return the model of these languages, or of all that are detected."""
    whole = _whole_model()
    if not codes:
        return whole
    part = copy(whole)
    part.set_languages(codes)
    return part
