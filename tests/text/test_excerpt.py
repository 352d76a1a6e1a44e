"""Of a long passage, what a question is about is shown."""

from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.text import excerpt
from pipeline.text.tokens import estimate, estimate_line

HANDBOOK = " ".join(
    f"Rule {n} is about the {subject}, and nobody knows why it was written."
    for n, subject in enumerate(["garden", "boiler", "ferry", "chimney", "cellar", "mooring"])
)


def about(text: str, question: str, tokens: int) -> str:
    return excerpt.best_part(text, excerpt.Wanted.of(question, "english"), tokens)


texts = st.text(st.sampled_from("abc é家.!? \n"), max_size=300)


def test_the_sentences_with_the_questions_words_are_shown_with_a_mark_where_something_is_missing() -> None:
    shown = about(HANDBOOK, "what about ferries and the chimney?", 40)
    assert "ferry" in shown
    assert "chimney" in shown
    assert "garden" not in shown
    assert shown.startswith("… Rule 2")
    assert shown.endswith(" …")


MINUTES = """
Minutes of the assembly of the garden club. Present were nineteen members and two guests from the town hall. The report
of last year was read and nobody had anything to add to it. The shed needs a new roof before winter, and the offers are
still too high. Olga took over as treasurer because Tim moves away. The fees stay as they are for another year. The
water is turned off in the first week of November. The next assembly of the garden club is in spring.
"""


def test_the_line_that_answers_is_shown_and_not_those_that_repeat_what_all_is_about() -> None:
    for tokens in (30, 60, 90):
        shown = about(MINUTES, "Who became treasurer at the assembly of the garden club?", tokens)
        assert "Olga took over as treasurer" in shown


@given(text=texts, question=texts, tokens=st.integers(3, 60))
def test_an_excerpt_fits_and_stands_on_one_line(text: str, question: str, tokens: int) -> None:
    shown = about(text, question, tokens)
    assert estimate(shown) <= tokens
    assert "\n" not in shown
    assert bool(shown) == bool(text.strip())


@given(
    text=st.text(st.sampled_from("abc é家.!? \n|-\t"), max_size=300),
    question=texts,
    tokens=st.integers(3, 60),
)
@example(text="?\n??", question="", tokens=4)
def test_an_excerpt_in_lines_fits_and_has_lines_of_the_text(text: str, question: str, tokens: int) -> None:
    shown = excerpt.displayed(text, excerpt.Wanted.of(question, "english"), tokens, in_lines=True)
    assert estimate_line(shown) <= tokens
    assert all(not line or line.startswith("  ") for line in shown.split("\n")[1:])
    # a word too long for it aside, each is a line of the text or a part of one
    words = text.split()
    if all(estimate(word) < tokens / 4 for word in words):
        for line in shown.split("\n"):
            assert line.strip(" \t…") in text.replace("\t", " ") or line.strip(" \t…") in text
