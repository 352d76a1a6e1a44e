"""Drop what a message takes back: what it corrects, and what it says for fun."""

import re
from collections.abc import Iterable

from pipeline.enrich.stated_facts.rules import CLAUSES

_WORD = re.compile(r"\w")
_NAME = r"(?:\d{1,2}(?:st|nd|rd|th|\.)? )?[^\W\d_a-zß-öø-ÿ][\w-]+(?: [^\W\d_a-zß-öø-ÿ][\w-]+)*"
_ONE_NAME = re.compile(rf"(?P<before>\S+ (?:(?:[^\W\d_A-ZÄÖÜ][\w'-]*|I(?:'\w+)?) )*){_NAME}\W*")
_ONLY_A_NAME = re.compile(rf"\W*(?P<name>{_NAME})[^\w?]*")


def without_taken_back(sentences: Iterable[str], language: str) -> list[str]:
    """Return the sentences of a message without its jokes, and with what a correction means.

    >>> without_taken_back(["I live in Berlin, sorry, I mean Bern.", "I'm vegan"], "english")
    ['I live in Bern', "I'm vegan"]
    """
    kept: list[str] = []
    for sentence in sentences:
        for joke in CLAUSES[language]["joked"].finditer(sentence):
            kept.clear()
            sentence = joke.string[joke.end() :]
        before = kept[-1] if kept else ""
        whole = f"{before} {sentence}".lstrip()
        for cue in CLAUSES[language]["corrected"].finditer(whole):
            if cue.end() <= len(before):
                continue
            said = whole[len(before) : cue.start()]
            # a cue that opens a sentence corrects the one before it
            if kept and not _WORD.search(said):
                said = kept.pop()
            sentence = _put_right(said.strip(), whole[cue.end() :])
        if _WORD.search(sentence):
            kept.append(sentence)
    return kept


def _put_right(said: str, correction: str) -> str:
    """Return a statement with the correction in the place of its one name, else the correction itself."""
    name, place = _ONLY_A_NAME.fullmatch(correction), _ONE_NAME.fullmatch(said)
    return f"{place['before']}{name['name']}" if name and place else correction
