"""Of a long passage, what a question is about is shown."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.text import excerpt
from pipeline.text.tokens import estimate

HANDBOOK = " ".join(
    f"Rule {n} is about the {subject}, and nobody knows why it was written."
    for n, subject in enumerate(["garden", "boiler", "ferry", "chimney", "cellar", "mooring"])
)
texts = st.text(st.sampled_from("abc é家.!? \n"), max_size=300)


def test_what_fits_is_shown_whole() -> None:
    assert excerpt.about("One.\n\nTwo.", "three?", 10, "english") == "One. Two."


def test_the_sentences_with_the_questions_words_are_shown_with_a_mark_where_something_is_missing() -> None:
    shown = excerpt.about(HANDBOOK, "what about ferries and the chimney?", 40, "english")
    assert "ferry" in shown
    assert "chimney" in shown
    assert "garden" not in shown
    assert shown.startswith("… Rule 2")
    assert shown.endswith(" …")


def test_without_a_word_of_the_question_the_beginning_is_shown() -> None:
    assert excerpt.about(HANDBOOK, "parrots?", 40, "english").startswith("Rule 0 is about the garden")


@given(text=texts, question=texts, tokens=st.integers(3, 60))
def test_an_excerpt_is_never_longer_than_it_may_be_and_stands_on_one_line(
    text: str, question: str, tokens: int
) -> None:
    shown = excerpt.about(text, question, tokens, "english")
    assert estimate(shown) <= tokens
    assert "\n" not in shown
    assert bool(shown) == bool(text.strip())
