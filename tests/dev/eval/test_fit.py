"""The fit of the weights: it ranks as the shipped path does, and finds the weights that put evidence first."""

from dataclasses import astuple, replace

import numpy as np
import pytest

from ops.dev import shipped
from ops.dev.eval import fit, samples
from ops.dev.eval.asking import asked_as_message
from ops.dev.eval.fit import BY_HAND, NAMES, Gathered, Pairs
from pipeline.recall.profiles import Weights
from pipeline.recall.rank.features import Features
from schemas.settings import Settings
from tests.recall.found import candidate

SHIPPED = np.array(astuple(Weights()))
SETTINGS = Settings(_env_file=None, embedding_provider="deterministic")


def test_the_fit_ranks_the_very_candidates_of_a_context_in_its_order() -> None:
    chat = samples.read_chat("classic")
    short = replace(chat, messages=chat.messages[:30], cases=chat.cases[:3])
    with shipped.temporary(SETTINGS) as backscroll:
        backscroll.fill(short.chat, short.messages, lambda _: None)
        gathered = list(fit.gather(backscroll, short, lambda _: None))
        for case, found in zip(short.cases, gathered, strict=True):
            put = asked_as_message(short.chat, short.messages, case.question)
            with backscroll.put(short.chat, put):
                asked = {"user_id": put.sender_id, "include_history": True}
                explain = backscroll.ask(short.chat.chat_id, case.question, 800, **asked).explain
            assert explain is not None
            # but the questions themselves, each of which is a new message
            ranked = [candidate.message.external_id for candidate in found.ranked(SHIPPED)]
            hits = [hit.external_id or "" for hit in explain.messages]
            assert [id_ for id_ in ranked if id_[0] != "q"] == [id_ for id_ in hits if id_[0] != "q"]
            assert set(case.evidence) <= set(ranked)


def gathered(rows: dict[str, list[float]], *relevant: int) -> Gathered:
    size = len(next(iter(rows.values())))
    columns = {name: np.array(values, dtype=np.float64) for name, values in rows.items()}
    features = Features(ordered=[candidate(n) for n in range(size)], columns=columns)
    return Gathered(features, set(map(str, relevant)))


def test_what_tells_evidence_from_the_others_gets_the_weight() -> None:
    # Given questions whose evidence has the most meaning, and words at random
    draw = np.random.default_rng(3)
    part = [
        gathered({"words": draw.random(30).tolist(), "meaning": [1.0, *(0.9 * draw.random(29))]}, 0)
        for _ in range(20)
    ]
    # When the weights are fitted
    pairs = Pairs.of(part, SHIPPED)
    fitted = fit.fit(pairs, SHIPPED, 0.001, pairs.sharpness(SHIPPED))
    # Then meaning has it all, the sum is what it was, and what is chosen by hand has not changed
    by_name = dict(zip(NAMES, fitted.tolist(), strict=True))
    assert by_name["meaning"] > 10 * by_name["words"] >= 0
    assert fitted.sum() == pytest.approx(SHIPPED.sum())
    assert all(by_name[name] == getattr(Weights(), name) for name in BY_HAND)
    assert fit.recalls(part, fitted)["5"] == 1 > fit.recalls(part, SHIPPED)["5"]
    # And two chats are enough to choose by
    found = fit.choose({"one": part[:10], "two": part[10:]}, lambda _: None)
    assert found["fitted"]["5"] == 1
    assert found["questions"] == 20
