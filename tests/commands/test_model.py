"""Commands that load models by torch.

`backscroll model export`: models like BERT become folders that run without torch; others, and bad ones, do not.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.clients import sentence_transformers
from pipeline.clients.onnx import onnx
from pipeline.clients.onnx.onnx import OnnxEmbedder
from schemas.settings import Settings
from tests.commands.conftest import Run
from tests.harness.doctor import diagnose
from tests.harness.refusals import as_owner

# by their names: to import them takes seconds, which every run of other stories would wait for, too
pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not onnx.is_installed(), reason="the `local` extra is not installed"),
    pytest.mark.skipif(
        not sentence_transformers.is_installed(), reason="the extra `sentence-transformers` is not installed"
    ),
]

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = [*("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"), *LETTERS, *("the", "is", "boiler")]
VOCABULARY += [f"##{letter}" for letter in LETTERS]
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 80,
    "pad_token_id": 1,
}
DISTIL = {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": len(VOCABULARY)}


def tiny(folder: Path, name: str, pooling: str = "mean", **changes: Any) -> Path:
    """A model of random weights in a folder, as sentence-transformers keeps it."""
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer, models
    from tokenizers.implementations import BertWordPieceTokenizer

    sizes = {**DISTIL, "max_position_embeddings": 80, "pad_token_id": 1} if name == "DistilBert" else SIZES
    torch.manual_seed(1)
    config = getattr(transformers, f"{name}Config")(**(sizes | changes))
    pieces = BertWordPieceTokenizer(vocab={piece: number for number, piece in enumerate(VOCABULARY)})
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer, **names)
    getattr(transformers, f"{name}Model")(config).save_pretrained(folder / "inner")
    tokenizer.save_pretrained(folder / "inner")
    inner = models.Transformer(str(folder / "inner"), max_seq_length=70)
    model = SentenceTransformer(
        modules=[inner, models.Pooling(64, pooling_mode=pooling)], prompts={"query": "the "}, device="cpu"
    )
    model.save(str(folder / "model"))
    return folder / "model"


@pytest.mark.parametrize(
    ("name", "pooling"),
    [("Roberta", "cls"), ("MPNet", "mean"), ("DistilBert", "mean")],
)
@pytest.mark.filterwarnings("ignore")
def test_a_model_like_bert_becomes_a_folder_with_the_same_vectors(
    run: Run, tmp_path: Path, name: str, pooling: str
) -> None:
    told = run("model", "export", tiny(tmp_path, name, pooling), tmp_path / "made", "--json").json

    assert told["mean_cosine"] > 0.999
    assert told["least_cosine"] > 0.99
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == [
        *("backscroll.json", "model.onnx", "model.weights", "tokenizer.json")
    ]
    about = json.loads((tmp_path / "made/backscroll.json").read_text())
    assert (about["pooling"], about["query_prefix"], about["max_pieces"]) == (pooling, "the ", 70)
    assert len(OnnxEmbedder(str(tmp_path / "made")).embed_query("the boiler")) == 64


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"hidden_act": "relu"}, "its activation is relu"),
        ({"name": "Electra", "embedding_size": 64}, "its architecture is electra"),
    ],
)
def test_a_model_that_the_graph_would_not_be_like_is_refused(
    run: Run, tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    told = run("model", "export", tiny(tmp_path, **({"name": "Bert"} | changes)), tmp_path / "made")
    assert told.code == 2
    assert why in " ".join(told.err.split())
    assert not (tmp_path / "made").exists()


@pytest.mark.filterwarnings("ignore")
def test_a_graph_that_is_not_like_its_model_is_refused_and_leaves_nothing(run: Run, tmp_path: Path) -> None:
    told = run("model", "export", tiny(tmp_path, "Bert"), tmp_path / "made", "--min-cosine", 1)
    assert told.code == 5
    assert "Refused: the mean cosine" in told.out
    assert not list(tmp_path.glob("*made*"))


def test_a_model_that_is_not_there_is_a_finding_beside_the_others_and_no_network_is_asked(
    run: Run, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    # Given a misspelt model, also of the active space, and something else that is wrong
    as_owner(
        settings, "UPDATE embedding_spaces SET name = 'x', provider = 'sentence-transformers', model = 'y'"
    )
    monkeypatch.setenv("BACKSCROLL_EMBEDDING_PROVIDER", "sentence-transformers")
    monkeypatch.setenv("BACKSCROLL_EMBEDDING_MODEL", "all-MiniLM-L6-v3")
    as_owner(settings, "ALTER TABLE messages NO FORCE ROW LEVEL SECURITY")
    monkeypatch.setattr("http.client.HTTPConnection.connect", connect)
    # as in a process of its own, where nothing has imported it before the doctor forbids it the network
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    told = diagnose(run, "--model")["findings"]
    # Then both are found
    assert {"space", "isolation", "model"} <= {each["check"] for each in told}
    assert "sentence-transformers/all-MiniLM-L6-v3" in next(
        each["what"] for each in told if each["check"] == "space"
    )
