"""The embedder without a model gives the same vectors as everywhere else that the formula is used."""

from math import isclose, sqrt

from hypothesis import given
from hypothesis import strategies as st

from pipeline.clients.deterministic import DeterministicEmbedder

# As other implementations of `deterministic-hash-v1` compute it for d = 256.
GOLDEN = {
    6: 0.434271,
    18: 0.144757,
    36: 0.434271,
    67: -0.144757,
    97: -0.410145,
    105: -0.50665,
    158: 0.337766,
    165: -0.144757,
    171: -0.144757,
}


def test_the_golden_sentence_has_the_golden_vector():
    vector = DeterministicEmbedder().embed_query("Boston trivia night in Cambridge")

    assert {i: round(x, 6) for i, x in enumerate(vector) if x} == GOLDEN


@given(st.text() | st.text(st.characters(categories=["Cs", "Lu"])), st.sampled_from([1, 3, 256]))
def test_every_text_has_one_vector_of_length_one(text: str, dimensions: int):
    embedder = DeterministicEmbedder(dimensions=dimensions)
    vector = embedder.embed_query(text)

    assert isclose(sqrt(sum(x * x for x in vector)), 1.0, abs_tol=1e-9)
    assert embedder.embed_documents([text, "between", text]) == [
        vector,
        embedder.embed_query("between"),
        vector,
    ]
