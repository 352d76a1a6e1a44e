"""How the thesaurus is made: which words it is of, which are near each other, and what is written."""

import math
from itertools import pairwise

import numpy as np
import pytest

from ops.dev import thesaurus as made
from pipeline.question import thesaurus as read


def at(*cosines: float) -> np.ndarray:
    """The vector `(1, 0)`, then one of length 1 for each cosine to it, all on the same side."""
    return np.array([(cosine, math.sqrt(1 - cosine**2)) for cosine in (1.0, *cosines)])


def test_it_is_of_whole_words_and_of_none_in_a_series() -> None:
    known = "[CLS] ##boat boat boat's ox b2b Boat é 1999 monday june seven sunny sun".split()
    assert made.whole_words(known) == ["boat", "sunny", "sun"]


def test_another_counts_by_how_far_it_is_above_the_least_and_not_below_a_few_percent() -> None:
    words = ["boat", "ship", "harbour", "lake", "stone"]
    found = made.thesaurus(words, at(0.9, 0.6, 0.52, 0.3), {word: word for word in words})
    assert list(found["boat"].items()) == [("ship", 80), ("harbour", 20)]
    assert found["ship"]["boat"] == 80
    assert "boat" not in found["stone"]


def test_forms_of_a_word_are_one_lexeme_which_is_never_near_itself() -> None:
    words = ["boat", "ships", "ship", "boats"]
    found = made.thesaurus(
        words, at(0.8, 0.7, 0.99), {"boat": "boat", "boats": "boat", "ship": "ship", "ships": "ship"}
    )
    # by its nearest form, on either side: `boats` and `ships`
    cosine = 0.99 * 0.8 + math.sqrt((1 - 0.99**2) * (1 - 0.8**2))
    near = round(200 * (cosine - 0.5))
    assert found == {"boat": {"ship": near}, "ship": {"boat": near}}


def test_only_the_nearest_are_there_and_of_equals_the_first_by_name() -> None:
    others = [f"other{letter}" for letter in "mlkjihgfedcba"]
    words = ["boat", *others]
    vectors = at(*[0.9 if other == "othera" else 0.8 for other in others])
    near = made.thesaurus(words, vectors, {word: word for word in words})["boat"]
    assert list(near) == [f"other{letter}" for letter in "abcdefghij"]
    assert len(near) == made.NEIGHBOURS
    assert all(one >= other for one, other in pairwise(near.values()))


def test_what_is_written_is_what_questions_are_read_with(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    written = made.lines({"ship": {"boat": 80, "sail": 7}, "boat": {"ship": 80}, "stone": {}})
    assert written[0].startswith("#")
    assert written[1:] == ["boat\tship:80", "ship\tboat:80 sail:7"]
    (tmp_path / "seafaring.tsv").write_text("\n".join(written) + "\n", encoding="utf-8")
    monkeypatch.setattr(read, "THESAURI", tmp_path)
    assert read.wording("seafaring", ["ship", "stone"]).related == {
        "boat": [("ship", 0.8)],
        "sail": [("ship", 0.07)],
    }
