"""The fit of the weights: it ranks as the shipped path does, and finds the weights that put evidence first."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ops.dev import shipped
from ops.dev.eval import fit, samples
from ops.dev.eval.asking import asked_as_message
from ops.dev.eval.fit import NAMES, Matrix, Pairs, as_array
from pipeline.recall.ask.weights import Weights
from pipeline.recall.rank.features import Features
from schemas.errors import InvalidInput
from schemas.settings import Settings
from tests.dev.eval import tiny
from tests.recall.found import candidate

SETTINGS = Settings(_env_file=None, embedding_provider="deterministic")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("chats"))


@pytest.fixture(scope="module")
def flat(folder: Path) -> Iterator[tuple[shipped.Shipped, samples.SampleChat]]:
    sample = samples.read_chat("flat", folder)
    with shipped.temporary(SETTINGS) as backscroll:
        backscroll.fill(sample.chat, sample.messages, lambda _: None)
        yield backscroll, sample


def test_the_fit_ranks_the_very_candidates_of_a_context_in_its_order(
    flat: tuple[shipped.Shipped, samples.SampleChat],
) -> None:
    backscroll, sample = flat
    cases = [case for case in sample.cases if case.evidence]
    matrices = list(fit.gather(backscroll, sample, lambda _: None))
    for case, matrix in zip(cases, matrices, strict=True):
        put = asked_as_message(sample.chat, sample.messages, case.question)
        with backscroll.put(sample.chat, put):
            asked = {"user_id": put.sender_id, "include_history": True}
            explain = backscroll.ask(sample.chat.chat_id, case.question, 800, **asked).explain
        assert explain is not None
        hits = [hit.external_id in case.evidence for hit in explain.messages]
        order = matrix.order(as_array(Weights()))
        assert matrix.relevant[order].tolist() == hits
        scores = matrix.rows[order] @ as_array(Weights())
        assert scores.tolist() == pytest.approx([hit.score for hit in explain.messages], abs=1e-5)


def matrix(rows: dict[str, list[float]], relevant: list[int], aside: int = -1) -> Matrix:
    size = len(next(iter(rows.values())))
    found = Features(
        ordered=[candidate(n, aside=n == aside) for n in range(size)],
        columns={name: np.array(values, dtype=np.float64) for name, values in rows.items()},
    )
    return Matrix.of(found, set(map(str, relevant)))


def test_what_tells_evidence_from_the_others_gets_the_weight() -> None:
    # Given questions whose evidence has the most meaning, and words at random
    draw = np.random.default_rng(3)
    part = [
        matrix({"words": draw.random(30).tolist(), "meaning": [1.0, *(0.9 * draw.random(29))]}, [0])
        for _ in range(20)
    ]
    # When the weights of both are fitted
    start = as_array(Weights())
    pairs = Pairs.of(part, start)
    fitted = fit.fit(pairs, start, ("words", "meaning"), 0.001, fit.sharpness_of(pairs, start))
    # Then meaning has it all, the sum is what it was, and nothing else has changed
    by_name = dict(zip(NAMES, fitted.tolist(), strict=True))
    assert by_name["meaning"] > 10 * by_name["words"] >= 0
    assert by_name["meaning"] + by_name["words"] == pytest.approx(Weights().meaning + Weights().words)
    assert by_name["phrase"] == Weights().phrase
    assert fit.recalls(part, fitted)["5"] == 1 > fit.recalls(part, start)["5"]


def test_too_few_chats_are_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="two chats"):
        fit.fitted(SETTINGS, ("flat", "boat"), lambda _: None, folder)
