"""A long text is cut into chunks that a model reads whole, and nothing of it is lost."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.text.tokens import estimate, split_chunks

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30)
prose = st.lists(words, max_size=120).flatmap(
    lambda parts: st.lists(
        st.sampled_from([" ", ". ", "\n", "\n\n", "? ", ""]), min_size=len(parts), max_size=len(parts)
    ).map(lambda gaps: "".join(a + b for a, b in zip(parts, gaps, strict=True)))
)


def test_chunks_end_with_paragraphs_rather_than_sentences_rather_than_words():
    text = "One two three. Four five six.\n\nSeven eight nine. Ten eleven twelve."

    assert [c.text for c in split_chunks(text, limit=10, overlap=0)] == [
        "One two three. Four five six.",
        "Seven eight nine. Ten eleven twelve.",
    ]
    assert [c.text for c in split_chunks(text, limit=7, overlap=0)] == [
        "One two three.",
        "Four five six.",
        "Seven eight nine.",
        "Ten eleven twelve.",
    ]


def test_a_chunk_begins_with_the_last_sentence_of_the_one_before():
    text = "Aa bb cc dd. Ee ff. Gg hh ii jj. Kk ll mm."

    assert [c.text for c in split_chunks(text, limit=9, overlap=4)] == [
        "Aa bb cc dd. Ee ff.",
        "Ee ff. Gg hh ii jj.",
        "hh ii jj. Kk ll mm.",  # no sentence begins within the overlap
    ]


@settings(max_examples=100)
@given(prose, st.integers(1, 60), st.data())
def test_whatever_the_text_nothing_is_lost_and_no_limit_passed(text: str, limit: int, data: st.DataObject):
    overlap = data.draw(st.integers(0, limit // 2))

    chunks = split_chunks(text, limit=limit, overlap=overlap)

    covered = set()
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end] == chunk.text.strip() != ""
        assert estimate(chunk.text) <= limit
        covered.update(range(chunk.start, chunk.end))
    assert all(c.isspace() for i, c in enumerate(text) if i not in covered)
    for one, other in pairwise(chunks):
        assert one.start < other.start
        assert one.end < other.end
        assert estimate(text[other.start : one.end]) <= overlap
