"""The optional cross-encoder: it reads the best once more, and when it cannot, a context is served without it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.factory import make_reranker
from pipeline.clients.protocols import Reranker
from pipeline.clients.rerankers import CrossEncoderReranker
from pipeline.recall import build_context
from pipeline.recall.rank import rank
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.errors import ProviderUnavailable
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import TENANT, Templates
from tests.harness.contexts import CHAT, fill
from tests.recall.found import aged


class Prefers:
    """A reranker to which one word says all."""

    model = "prefers"

    def __init__(self, word: str) -> None:
        self.word = word

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(self.word in text) for text in texts]


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("filled", fill)


def ask(database: Database, settings: Settings, reranker: Reranker | None) -> Context:
    query = ContextQuery(
        chat_id=CHAT.chat_id, query="the boat trip in May", explain=True, include_history=False
    )
    return build_context(
        database, TENANT, query, embedder=DeterministicEmbedder(), settings=settings, reranker=reranker
    )


def test_what_it_prefers_comes_first_and_shows_by_how_much(database: Database, settings: Settings) -> None:
    found = ask(database, settings, Prefers("half a day")).explain
    assert found is not None
    assert "half a day" in found.messages[0].preview
    assert found.messages[0].components["reranker"] == rank.RERANKER_WEIGHT
    assert sum(found.messages[0].components.values()) == pytest.approx(found.messages[0].score, abs=1e-4)


class Away:
    """A cross-encoder whose model is not there."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        raise ProviderUnavailable("The reranker is not there.")


def test_without_its_answer_the_ranking_stays(database: Database, settings: Settings) -> None:
    plain = ask(database, settings, None)
    without = ask(database, settings, Away())
    assert without.blocks[:-1] == plain.blocks[:-1]
    assert without.degraded[0].startswith("reranker: The reranker ")


def test_none_falls_behind_what_was_not_read() -> None:
    hits = [aged(n, 3.0 - n / 10) for n in range(6)]
    found = rank.add_reranker_scores(hits, [0.0, 0.5, 1.0])
    assert [each.candidate.id for each in found] == [2, 1, 0, 3, 4, 5]
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


@pytest.mark.model
def test_a_model_in_a_folder_answers_from_0_to_1_and_a_broken_one_is_unavailable(tmp_path: Path) -> None:
    """A tiny model of random weights: what it says is no use, but the way to it is the real one."""
    pytest.importorskip("sentence_transformers")
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "boiler", "the", "is"]))
    folder = tmp_path / "model"
    sizes: dict[str, Any] = dict.fromkeys(("vocab_size", "hidden_size", "intermediate_size"), 8)
    sizes |= dict.fromkeys(("num_labels", "num_hidden_layers", "num_attention_heads"), 1)
    BertForSequenceClassification(BertConfig(**sizes)).save_pretrained(folder)
    BertTokenizerFast(vocab_file=str(vocabulary)).save_pretrained(folder)

    reranker = make_reranker(Settings(_env_file=None, reranker_model=str(folder)))
    assert reranker is not None
    texts = ["the boiler is", "the " * 3000, ""]
    scores = reranker.scores("boiler?", texts)
    assert len(scores) == 3
    assert all(0 <= score <= 1 for score in scores)
    assert reranker.scores("boiler?", texts) == pytest.approx(scores)
    assert reranker.scores("boiler?", []) == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProviderUnavailable):
        CrossEncoderReranker(str(tmp_path / "empty")).scores("boiler?", texts)
