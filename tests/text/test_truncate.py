"""A text that is too long to be stored keeps its beginning, whole words and characters, and says that it was cut."""

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.truncate import within_bytes

FAMILY, FLAG, THUMB = "👩\u200d👩\u200d👧", "🇵🇹", "👍🏽"
SIGNS = [
    "a",
    "é",
    "e\u0301",
    "я",
    "नि",
    "กำ",
    "锅",
    "ب\u064e",
    " ",
    "\n",
    "\r\n",
    FAMILY,
    FLAG,
    THUMB,
    "1\ufe0f\u20e3",
]
TEXTS = st.lists(st.sampled_from(SIGNS), min_size=40, max_size=300)


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
    rest = text[len(head) :]
    assert not unicodedata.category(rest[0]).startswith("M")
    assert not re.match("[\u200c\u200d\U0001f3fb-\U0001f3ff]", rest)
    assert not head.endswith("\u200d")
    assert len(re.findall("[\U0001f1e6-\U0001f1ff]", head)) % 2 == 0


def test_a_word_is_kept_whole_where_words_are_short() -> None:
    for size in range(40, 60):
        cut, _ = within_bytes("eins zwei drei vier " * 100, size)
        words = cut.removesuffix("… [cut: 2000 bytes]").split()
        assert set(words) <= {"eins", "zwei", "drei", "vier"}


def test_marks_without_an_end_are_cut_all_the_same() -> None:
    cut, original = within_bytes("z" + "\u0335" * 50_000, 1000)
    assert (len(cut.encode()) <= 1000, original) == (True, 100_001)
    assert cut.startswith("z\u0335")
