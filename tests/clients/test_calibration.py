"""What "related" means is the same in every embedding space, however its model spreads its cosines."""

import pytest

from pipeline.clients.calibration import calibrate
from pipeline.clients.onnx.onnx import OnnxEmbedder, is_installed
from pipeline.clients.onnx.onnx_bundled import MODELS
from pipeline.clients.protocols import Embedder
from pipeline.memories.likeness import SAME_COSINE
from schemas.vectors import Calibration

# of neither list: what says the same, and what is about the same and says something else
SAME = [
    ("I like bicycles", "I like bikes"),
    ("works at Siemens", "is employed by Siemens"),
    ("Ana has a dog called Rex", "Rex is the name of Ana's dog"),
]
OTHER = [
    ("likes comedy movies", "likes watching movies"),
    ("prefers natural scenery", "likes rock music"),
    ("lives in Lisbon", "lives in Porto"),
    ("likes tea", "likes coffee"),
]


def cosine(calibration: Calibration, embedder: Embedder, pair: tuple[str, str]) -> float:
    one, other = embedder.embed_documents(pair)
    return calibration.height + calibration.slope * sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.model
@pytest.mark.skipif(not is_installed(), reason="the `local` extra is not installed")
@pytest.mark.parametrize("model", [name for name, each in MODELS.items() if each.source()])
def test_statements_that_say_the_same_are_nearer_than_others_with_every_model(model: str) -> None:
    embedder = OnnxEmbedder(model)
    measured = calibrate(embedder)
    assert measured is not None
    _, documents = measured
    same = [cosine(documents, embedder, pair) for pair in SAME]
    other = [cosine(documents, embedder, pair) for pair in OTHER]
    assert max(other) < min(same)
    # the limit unites nothing that is different, and at least what is told in other words of the same kind
    assert max(other) < SAME_COSINE <= same[0]
