"""What a text says by its wording, in twelve languages: see `cue_examples.toml`."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.ask import followup, parse
from pipeline.text.cues import ANSWER_TYPES, answer_types, dialogue_acts, message_cues, stop_words
from pipeline.text.languages import LANGUAGES
from pipeline.text.sentences import is_content, terms, words

EXAMPLES = tomllib.loads((Path(__file__).parent / "cue_examples.toml").read_text(encoding="utf-8"))
NOW = datetime(2026, 4, 1, 20, 0, tzinfo=UTC)
# A German and English chat has both; an unknown language has English cues.
READ_AS = [(name, name) for name in LANGUAGES] + [
    ("german", "german+english"),
    ("english", "german+english"),
    ("chinese", "english+chinese"),
    ("english", "simple"),
    ("english", "swedish"),
]


def examples(*kinds: str) -> list[tuple[str, str, str]]:
    """The language, the kind and the text of each example, for each language that it is read as."""
    return [
        pytest.param(read_as, kind, text, id=f"{read_as}-{kind}-{text}")
        for written, read_as in READ_AS
        for kind in kinds
        for text in EXAMPLES[written].get(kind, ())
    ]


def leans(text: str, language: str) -> bool:
    return followup.leans(parse.read(text, ["Ana", "Ben", "Cleo"], NOW, NOW, language))


def sentence(text: str, language: str) -> dialogue_acts.Sentence:
    written = tuple(words(text))
    return dialogue_acts.Sentence(
        message=0, speaker="", text=text, words=written, terms=terms(written, language), language=language
    )


def test_every_language_has_examples_of_every_kind() -> None:
    assert set(EXAMPLES) == set(LANGUAGES)
    every = set(EXAMPLES["english"]) - {"no_number"}
    assert all(every <= set(EXAMPLES[language]) for language in LANGUAGES)


@pytest.mark.parametrize(("language", "kind", "text"), examples("questions", "statements"))
def test_a_question_is_known_without_its_mark(language: str, kind: str, text: str) -> None:
    assert (message_cues.read(text, language).asks > 0.5) == (kind == "questions")


@pytest.mark.parametrize(("language", "kind", "text"), examples(*ANSWER_TYPES))
def test_a_question_says_what_it_asks_for(language: str, kind: str, text: str) -> None:
    assert kind in answer_types.asked(text, language)


@pytest.mark.parametrize(("language", "kind", "text"), examples("no_number"))
def test_not_every_question_asks_for_a_number(language: str, kind: str, text: str) -> None:
    assert "number" not in answer_types.asked(text, language)


@pytest.mark.parametrize(("language", "kind", "text"), examples("times", "no_times"))
def test_a_message_says_when(language: str, kind: str, text: str) -> None:
    assert message_cues.read(text, language).has_time == (kind == "times")


@pytest.mark.parametrize(("language", "kind", "text"), examples("numbers", "no_numbers"))
def test_a_message_has_a_number(language: str, kind: str, text: str) -> None:
    assert message_cues.read(text, language).has_number == (kind == "numbers")


@pytest.mark.parametrize(("language", "kind", "text"), examples("says_nothing", "says_something"))
def test_an_answer_says_that_it_knows_nothing(language: str, kind: str, text: str) -> None:
    assert message_cues.read(text, language).says_nothing == (kind == "says_nothing")


@pytest.mark.parametrize(("language", "kind", "text"), examples("promises"))
def test_people_promise(language: str, kind: str, text: str) -> None:
    assert dialogue_acts.promises(sentence(text, language))


@pytest.mark.parametrize(("language", "kind", "text"), examples("leans", "stands"))
def test_a_question_leans_on_the_talk_or_stands_by_itself(language: str, kind: str, text: str) -> None:
    assert leans(text, language) == (kind == "leans")


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_of_a_subject_are_no_stop_words(language: str) -> None:
    assert [word for word in EXAMPLES[language]["content"] if not is_content(word, language)] == []
    assert [word for word in EXAMPLES[language]["empty"] if is_content(word, language)] == []


def test_a_word_of_one_language_is_no_stop_word_of_another() -> None:
    assert "hat" not in stop_words("english").words
    assert "hat" in stop_words("german").words
    assert "hat" in stop_words("german+english").words


TALK = st.text(max_size=120) | st.lists(
    st.sampled_from([text for kinds in EXAMPLES.values() for texts in kinds.values() for text in texts])
    | st.sampled_from([" ", ". ", "? ", "\n", "…", "！", "'", "@bot ", "İ", "ß"]),
    max_size=6,
).map("".join)
CHATS = st.lists(st.sampled_from([*LANGUAGES, "simple", "swedish", ""]), min_size=1, max_size=3).map("+".join)


@given(TALK, CHATS, st.booleans())
def test_any_text_can_be_read_in_any_language(text: str, language: str, of_a_bot: bool) -> None:
    read = message_cues.read(text, language, of_a_bot=of_a_bot)
    assert 0 <= read.asks <= 1
    assert message_cues.MessageCues.stored(read.asks, read.flags) == read
    assert read == message_cues.read(text, "+".join(reversed(language.split("+"))), of_a_bot=of_a_bot)
    assert dialogue_acts.promises(sentence(text, language)) in (True, False)
    assert leans(text, language) in (True, False)


@given(TALK, st.sampled_from(LANGUAGES), st.sampled_from(LANGUAGES))
def test_a_chat_in_two_languages_reads_what_each_reads(text: str, one: str, other: str) -> None:
    both = f"{one}+{other}"
    apart = message_cues.read(text, one), message_cues.read(text, other)
    together = message_cues.read(text, both)
    assert together.asks >= max(each.asks for each in apart) - 1e-9
    assert together.has_number >= any(each.has_number for each in apart)
    asked = [answer_types.asked(text, language) for language in (one, other)]
    assert answer_types.asked(text, both) == asked[0] | asked[1]
