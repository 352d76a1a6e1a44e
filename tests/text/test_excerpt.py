"""Of a long passage, what a question is about is shown."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.text import excerpt
from pipeline.text.tokens import estimate

HANDBOOK = " ".join(
    f"Rule {n} is about the {subject}, and nobody knows why it was written."
    for n, subject in enumerate(["garden", "boiler", "ferry", "chimney", "cellar", "mooring"])
)


def about(text: str, question: str, tokens: int) -> str:
    return excerpt.about(text, excerpt.Wanted.of(question, "english"), tokens)


texts = st.text(st.sampled_from("abc é家.!? \n"), max_size=300)


def test_what_fits_is_shown_whole() -> None:
    assert about("One.\n\nTwo.", "three?", 10) == "One. Two."


def test_the_sentences_with_the_questions_words_are_shown_with_a_mark_where_something_is_missing() -> None:
    shown = about(HANDBOOK, "what about ferries and the chimney?", 40)
    assert "ferry" in shown
    assert "chimney" in shown
    assert "garden" not in shown
    assert shown.startswith("… Rule 2")
    assert shown.endswith(" …")


def test_without_a_word_of_the_question_the_beginning_is_shown() -> None:
    assert about(HANDBOOK, "parrots?", 40).startswith("Rule 0 is about the garden")


@given(text=texts, question=texts, tokens=st.integers(3, 60))
def test_an_excerpt_is_never_longer_than_it_may_be_and_stands_on_one_line(
    text: str, question: str, tokens: int
) -> None:
    shown = about(text, question, tokens)
    assert estimate(shown) <= tokens
    assert "\n" not in shown
    assert bool(shown) == bool(text.strip())
