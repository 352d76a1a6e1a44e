"""What a message is worth for a question, whatever the scale of its score; and recent talk, the newer the more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.choose import recent as recent_talk
from pipeline.recall.choose import worth
from pipeline.recall.rank.ranked import Scored
from pipeline.text.excerpt import Wanted
from tests.recall.found import hit, recent

SCORES = st.floats(-100, 100).map(lambda score: round(score, 3))


def ranked(scores: list[tuple[float, float, bool]], scale: float = 1.0) -> list[Scored]:
    """Messages with these scores, the part of it that is for their length, and whether they hold a word of it."""
    return [
        hit(
            number,
            "hello",
            score * scale,
            parts={"words": (score - length) * scale, "length": length * scale},
            terms={"asked": 1} if related else {},
        )
        for number, (score, length, related) in enumerate(scores)
    ]


@given(st.lists(st.tuples(SCORES, st.floats(0, 1).map(lambda part: round(part, 3)), st.booleans())))
def test_messages_are_worth_from_nothing_to_all_whatever_the_scale_of_their_scores(
    scores: list[tuple[float, float, bool]],
) -> None:
    values = worth.of_messages(ranked(scores))
    assert all(0 <= value <= 1 for value in values)
    for scale in (0.25, 3.0, 1000.0):
        assert worth.of_messages(ranked(scores, scale)) == pytest.approx(values, abs=1e-9)
    # the better of two is worth no less
    own = [score - length for score, length, _ in scores]
    in_order = sorted(range(len(own)), key=lambda number: own[number])
    assert [values[number] for number in in_order] == sorted(values)


def test_nothing_is_worth_anything_where_nothing_has_to_do_with_the_question() -> None:
    assert worth.of_messages(ranked([(1.0, 0.0, False), (0.9, 0.0, False)])) == [0.0, 0.0]
    # but what is beside what does is, although it has no word of it
    assert worth.of_messages(ranked([(1.0, 0.0, True), (0.9, 0.0, False)])) == [
        1.0,
        pytest.approx(0.947, abs=0.001),
    ]


@given(st.floats(-1, 1) | st.none(), st.text(max_size=100), st.text(max_size=60))
def test_a_statement_is_worth_from_nothing_to_all(cosine: float | None, text: str, question: str) -> None:
    asked = Wanted.of(question, "english")
    assert 0 <= worth.of_text(text, cosine, asked) <= 1
    # more likeness and more of the question's words are worth no less
    assert worth.of_text(text, cosine, asked) <= worth.of_text(f"{text} {question}", 1.0, asked)


@given(st.lists(st.floats(0, 1), max_size=40), st.floats(0, 1), st.integers(0, 40))
def test_no_recent_message_is_worth_less_than_an_older_one(
    values: list[float], base: float, reach: int
) -> None:
    latest = [recent(1000 - number, "hello") for number in range(len(values))]
    by_id = {message.id: value for message, value in zip(latest, values, strict=True)}
    found = recent_talk.worths(latest, by_id, base, reach)
    assert found == sorted(found, reverse=True)
    assert len(found) == len(latest)
    assert all(value >= 0.99 * base for value in found[:reach])
