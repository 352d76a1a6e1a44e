"""A text that is too long keeps its beginning, of whole words and characters, and says that it was cut."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.pack.explain import preview
from pipeline.text import display, excerpt, tokens
from pipeline.text.fencing import visible
from pipeline.text.keyphrases import keyphrases
from pipeline.text.truncate import shortened, within_bytes, within_tokens
from schemas.base import cut_name, is_cut

FAMILY, FLAG, THUMB = "👩\u200d👩\u200d👧", "🇵🇹", "👍🏽"
# what people see as one character, in each of which nothing else ends
SIGNS = [
    *("a", "é", "e\u0301", "я", "锅", "邉\U000e0102", "が", "ｶﾞ", " ", "\n", "\r\n"),
    *("नि", "क्ष", "শ্রী", "ന്\u200dറ", "กำ", "ต้", "ກຳ", "ក្រុ", "န္တ", "ب\u064e", "שּׁ", "𞤣𞥄"),
    *("각", "\u1100\u1161\u11a8", "가\u11a8", "\u0600١", "1\ufe0f\u20e3", "❤️\u200d🔥"),
    *(FAMILY, FLAG, "🇩🇪", THUMB, "🏴\U000e0067\U000e0062\U000e007f"),
]
TEXTS = st.lists(st.sampled_from(SIGNS), min_size=40, max_size=300)


def begins_with_signs(text: str, signs: list[str]) -> bool:
    """Whether a text is the first ones of these signs, white space aside."""
    whole, size = "".join(text.split()), 0
    for sign in ("", *signs):
        size += len("".join(sign.split()))
        if size >= len(whole):
            break
    return size == len(whole) and "".join("".join(signs).split()).startswith(whole)


def of_chunks(text: str, size: int) -> str:
    return tokens.split_chunks(text, limit=size, overlap=0)[0].text


def of_uneven_chunks(text: str, size: int) -> str:
    """As where a part of a word has more tokens than the word."""
    return tokens.split_chunks(
        text, limit=size, overlap=0, count=lambda part: len(part) + 9 * (len(part) % 4)
    )[0].text


def excerpted(text: str, size: int) -> str:
    return excerpt.best_part(text, excerpt.Wanted.of("", "english"), size)


@pytest.mark.parametrize(
    "cut",
    [
        shortened,
        cut_name,
        within_tokens,
        display.preview,
        lambda text, _: preview(text),
        of_chunks,
        of_uneven_chunks,
        excerpted,
    ],
)
@given(signs=TEXTS, size=st.integers(30, 120))
def test_wherever_a_text_is_cut_no_character_is_torn_apart(
    cut: Callable[[str, int], str], signs: list[str], size: int
) -> None:
    shown = cut("".join(signs), size).removesuffix("…")
    # what tells a flag's country is nothing that people see, and previews drop it
    assert begins_with_signs(visible(shown), list(map(visible, signs)))


@given(st.integers(30, 300))
def test_of_many_flags_none_becomes_another(size: int) -> None:
    assert len(shortened("🇵🇹🇩🇪" * 100, size)) % 2 == 1


def test_a_topic_ends_between_characters() -> None:
    texts = [f"{'नि' * 33}{'क्ष' * 20} {end}" for end in ("one", "two", "three")]
    (topic, *_) = keyphrases(texts, [], [], "hindi", limit=3).topics
    assert begins_with_signs(topic, ["नि"] * 33 + ["क्ष"] * 20)


@given(TEXTS, st.integers(30, 60))
def test_a_name_that_was_cut_is_known_to_be(signs: list[str], size: int) -> None:
    name = "".join(signs)
    assert is_cut(cut_name(name, size), size) == (len(name) > size)


@given(TEXTS, st.integers(40, 200))
def test_what_is_too_long_is_cut_between_characters_and_marked(signs: list[str], size: int) -> None:
    text = "".join(signs)
    cut, original = within_bytes(text, size)
    if len(text.encode()) <= size:
        assert (cut, original) == (text, None)
        return
    # it fits, says how long it was, and is the same whenever it is cut again
    assert len(cut.encode()) <= size
    assert original == len(text.encode())
    head, mark = cut[: cut.rindex("…")], cut[cut.rindex("…") :]
    assert mark == f"… [cut: {original} bytes]"
    assert within_bytes(cut, size) == (cut, None)
    assert within_bytes(text, size) == (cut, original)
    # and nothing that people see as one character is torn apart
    assert text.startswith(head)
    assert begins_with_signs(head, signs)


def test_a_word_is_kept_whole_where_words_are_short() -> None:
    for size in range(40, 60):
        cut, _ = within_bytes("eins zwei drei vier " * 100, size)
        words = cut.removesuffix("… [cut: 2000 bytes]").split()
        assert set(words) <= {"eins", "zwei", "drei", "vier"}


def test_marks_without_an_end_are_cut_all_the_same() -> None:
    cut, original = within_bytes("z" + "\u0335" * 50_000, 1000)
    assert (len(cut.encode()) <= 1000, original) == (True, 100_001)
    assert cut.startswith("z\u0335")
