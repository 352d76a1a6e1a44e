"""The fit of the judge: what tells an answer gets its weight, and each chat is judged by what the others teach."""

import numpy as np
import pytest

from ops.dev.eval import judge_fit, samples
from ops.dev.eval.judge_fit import Rows
from ops.dev.eval.samples import Part


def rows(chats: list[str], *, noise: float = 0.0) -> Rows:
    """Rows in which `cosine` tells what is so, and `far` what is not."""
    draw = np.random.default_rng(5)
    labels = np.array([number % 2 for number in range(len(chats))], np.float64)
    cosine = labels + noise * draw.normal(size=len(chats))
    return Rows(np.column_stack([cosine, 1 - cosine]), labels, np.ones(len(chats)), chats)


def test_a_signal_never_weighs_against_its_sense() -> None:
    fitted = judge_fit.logistic(("cosine", "far"), rows(["a"] * 60, noise=0.5))
    assert fitted.weights["cosine"] >= 0 >= fitted.weights["far"]
    assert sum(map(abs, fitted.weights.values())) > 1
    # what speaks for an answer has no weight where it speaks against it
    wrong = judge_fit.logistic(("far", "cosine"), rows(["a"] * 60))
    assert wrong.weights == pytest.approx({"far": 0, "cosine": 0}, abs=1e-6)


def test_a_chat_does_not_judge_itself() -> None:
    # Given a chat that is the reverse of all others
    given = rows(["a", "a"] * 20 + ["odd", "odd"] * 5)
    reverse = np.array([chat == "odd" for chat in given.chats])
    labels = np.where(reverse, 1 - given.labels, given.labels)
    odds = judge_fit.left_out(("cosine", "far"), given._replace(labels=labels))
    # Then it is judged as the others are
    assert np.all((odds[reverse] > 0) == (given.values[reverse, 0] > 0.5))


@pytest.mark.parametrize("part", ["fit", "held"])
def test_what_was_written_for_it_is_of_chats_and_people_that_exist(part: Part) -> None:
    sample = samples.read_relevance_sample(part)
    chats = {chat.name: {m.sender_id for m in chat.messages} for chat in samples.chosen(part)}
    assert sample.absent.keys() <= chats.keys()
    assert all(told.about is None or told.about in chats[told.chat] for told in sample.told)
    known = {each.id for each in sample.statements}
    assert all(known.issuperset(search.right) for search in sample.searches)
