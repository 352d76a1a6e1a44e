"""Look up synonyms: asked about a job, a message about a career may answer.

A thesaurus maps a text search configuration's lexemes to their nearest others and how near they are. The English one
was made from the vocabulary of all-MiniLM-L6-v2 and is edited by hand; a second file has the commonest words of other
languages.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

_WORD = re.compile(r"[^\W\d_]+")
THESAURI = files("pipeline.question") / "thesauri"


class Wording(NamedTuple):
    """The lexemes of a question, and their synonyms."""

    lexemes: Sequence[str]
    # for each that is none of the question's own: whose place it may take, and how much it then counts, from 0 to 1
    related: Mapping[str, Sequence[tuple[str, float]]] = {}

    @property
    def all(self) -> list[str]:
        """Return every lexeme that a message may be found by."""
        return [*self.lexemes, *self.related]

    def read(self, counted: Mapping[str, int]) -> tuple[dict[str, int], dict[str, float]]:
        """Split a message's counts of lexemes into the question's own and the weight of synonyms.

        `counted`: how often it has any of `all`.
        """
        own = {lexeme: number for lexeme, number in counted.items() if lexeme not in self.related}
        others: dict[str, float] = {}
        for lexeme, number in counted.items():
            for meant, share in self.related.get(lexeme, ()):
                others[meant] = others.get(meant, 0.0) + share * number
        return own, others


def wording(language: str, lexemes: Sequence[str]) -> Wording:
    """Return a question's lexemes, stemmed by the text search configuration `language`, with their synonyms."""
    entries = _entries(language)
    related: dict[str, list[tuple[str, float]]] = {}
    for lexeme in lexemes:
        for entry in entries.get(lexeme, "").split():
            other, _, percent = entry.rpartition(":")
            if other not in lexemes:
                related.setdefault(other, []).append((lexeme, int(percent) / 100))
    return Wording(lexemes, related)


def translated(language: str, text: str) -> str:
    """Translate known words of other languages into the chat's own, for a model that lacks them.

    >>> translated("english", "Wie viel Miete zahlt Olek?")
    'Wie viel rent pay Olek?'
    """
    known = _translations(language)
    return _WORD.sub(lambda match: known.get(match[0].casefold(), match[0]), text) if known else text


@lru_cache(maxsize=16)
def _translations(language: str) -> Mapping[str, str]:
    pairs = (pair for row in _rows(language, "_abroad") for pair in row[2].split())
    return {word: meaning for word, _, meaning in (pair.partition("=") for pair in pairs)}


@lru_cache(maxsize=16)
def _entries(language: str) -> Mapping[str, str]:
    """Return what the files say of each lexeme."""
    return {row[0]: row[1] for suffix in ("_abroad", "") for row in _rows(language, suffix)}


def _rows(language: str, suffix: str) -> list[list[str]]:
    file = THESAURI / f"{language}{suffix}.tsv"
    if not language.isidentifier() or not file.is_file():
        return []
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]
