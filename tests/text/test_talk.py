"""The part that a message has in a talk, read off its wording."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.cues import answer_types, message_cues


def test_a_long_message_that_ends_with_a_question_is_one_in_part() -> None:
    assert (
        0
        < answer_types.asks(
            "We went camping with the kids two weekends ago and unplugged. And you?", "english"
        )
        < 0.2
    )


@given(
    st.lists(
        st.sampled_from(["what is it", "By plane", " ", ".", "!", "?", "…", "\n", "[picture: a]"]), max_size=8
    )
)
def test_a_space_at_the_end_asks_no_more_and_no_less(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert answer_types.asks(text, "english") == answer_types.asks(text + " ", "english")


def test_a_line_without_a_question_does_not_end_the_question_before_it() -> None:
    assert 0 < answer_types.asks("Do you like it?\n[picture: a dog on a sofa]", "english") < 1


def test_a_question_mark_in_an_address_asks_nothing() -> None:
    assert answer_types.asks("It is on https://a.example/find?q=boiler now", "english") == 0


@pytest.mark.parametrize("text", ["at 18:30", "on 4.5.", "9 Apr", "in May", "since 2019", "7pm", "last week"])
def test_times_are_known_in_figures_and_in_words(text: str) -> None:
    assert message_cues.read(text, "english").has_time


@pytest.mark.parametrize("text", ["you may go", "we march on", "port 8420", "version 1.2.3.4", "10.0.0.1"])
def test_what_only_looks_like_a_time_is_none(text: str) -> None:
    assert not message_cues.read(text, "english").has_time
