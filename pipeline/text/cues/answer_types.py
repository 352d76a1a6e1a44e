"""Recognize what a question asks for and what a message holds (a time, a number), by the cues of its language."""

import re

from pipeline.text.accents import LETTERS_AND_DIGITS
from pipeline.text.cues import AnswerType, Cues, cues_of, plain
from pipeline.text.sentences import FIRST_UNSPACED, UNSPACED

_WORD = re.compile(rf"{LETTERS_AND_DIGITS}(?:'{LETTERS_AND_DIGITS})?")
_DIGIT = re.compile(r"\d")
# Times that are written alike in all languages: 18:30, 18h30, 4.5., 4/5/2026, 2026-05-04, a year.
_CLOCK_OR_DATE = re.compile(
    r"(?<![a-z\d.:/-])(?:[012]?\d[:h][0-5]\d|[0-3]?\d\.[01]?\d\.(?:\d{4}|\d\d)?|[0-3]?\d/[0-3]?\d(?:/(?:\d{4}|\d\d))?"
    r"|(?:19|20)\d\d(?:[-/.]\d\d?){0,2})(?![a-z\d:/])"
)
_MARKS = ("?", "\uff1f", "\u061f", "\u00bf")
_ENDS_STATING = (".", "!", "\u3002", "\uff01")
_SENTENCE = re.compile("[^.!?\u2026\u3002\uff01\uff1f\u061f\n]+[.!?\u2026\u3002\uff01\uff1f\u061f\n]*")
# A question mark in an address asks nothing.
_LINK = re.compile(r"https?://\S+")
# An end is looked for in the last characters only.
_END_CHARS = 40


def asks(text: str, language: str) -> float:
    """Return the share of the text that asks, from 0 to 1, by question marks and, without any mark, by its wording.

    >>> asks("how do we get to Svaneti", "english"), asks("By plane.", "english"), asks("你来吗", "chinese")
    (1.0, 0.0, 1.0)
    """
    return share_that_asks(plain(text), cues_of(language))


def share_that_asks(text: str, cues: Cues) -> float:
    """Return the share of a text, as `plain` returns it, that asks."""
    marked = any(mark in text for mark in _MARKS)
    if not (marked or cues.has_ends or "\n" in text or "\u2026" in text) and text.endswith(_ENDS_STATING):
        return 0.0  # no sentence asks: a shortcut for most texts
    if marked and "://" in text:
        text = _LINK.sub(" ", text)
    asking = total = 0
    for piece in _SENTENCE.findall(text):
        sentence = piece.strip()
        total += len(sentence)
        if sentence.endswith(_MARKS) or sentence.startswith("\u00bf") or _is_asked(sentence, cues):
            asking += len(sentence)
    return asking / max(total, 1)


def _is_asked(sentence: str, cues: Cues) -> bool:
    """Tell whether a sentence without a question mark asks."""
    if cues.has_ends and cues.ends.search(sentence[-_END_CHARS:]):
        return True
    if sentence.endswith(_ENDS_STATING):
        return False
    return cues.begins.match(sentence) is not None or cues.asks_anywhere.are_in(sentence)


def words_of(text: str) -> list[str]:
    """Return the words of a text as `plain` returns it; a run of a script without spaces is one."""
    return _WORD.findall(text)


def size_of(words: list[str], text: str) -> float:
    """Return the number of words of a text; in scripts without spaces two characters count as one."""
    if text.isascii() or max(text) < FIRST_UNSPACED:
        return float(len(words))
    unspaced = [run for word in words for run in UNSPACED.findall(word)]
    return len(words) + sum(len(run) / 2 - 1 for run in unspaced)


def asked(question: str, language: str) -> frozenset[AnswerType]:
    """Return what a question asks for.

    >>> sorted(asked("How many of us are coming?", "english")), sorted(asked("Wann kommt er?", "german"))
    (['number'], ['when'])
    """
    text = plain(question)
    return frozenset(kind for kind, phrases in cues_of(language).asked.items() if phrases.are_in(text))


def speaks_of_asker(question: str, language: str) -> bool:
    """Tell whether a question names whoever asks it: "me", and not "us".

    >>> speaks_of_asker("Qu'est-ce que j'ai dit ?", "french"), speaks_of_asker("Where do we meet?", "english")
    (True, False)
    """
    text = plain(question)
    parts = (part for word in words_of(text) for part in (word, *word.split("'")))
    return cues_of(language).first_person.are_in(parts, text)


def holds_time(words: list[str], text: str, cues: Cues) -> bool:
    """Tell whether a text, as `plain` returns it, names a time."""
    return (
        cues.time.are_in(words, text)
        or (_DIGIT.search(text) is not None and _CLOCK_OR_DATE.search(text) is not None)
        or cues.time_phrases.are_in(text)
    )


def holds_number(words: list[str], text: str, cues: Cues) -> bool:
    """Tell whether a text, as `plain` returns it, has a number."""
    return (
        _DIGIT.search(text) is not None or cues.number.are_in(words, text) or cues.number_phrases.are_in(text)
    )
