"""What a text says by its wording, in twelve languages: see `cue_examples.toml`."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.question import conversation, parse
from pipeline.text.cues import ANSWER_TYPES, answer_types, dialogue_acts, message_cues
from pipeline.text.languages import LANGUAGES
from pipeline.text.sentences import is_content, terms, words
from tests.text.builders import EXAMPLES

BEGAN, NOW = datetime(2025, 5, 1, tzinfo=UTC), datetime(2026, 4, 1, 20, 0, tzinfo=UTC)
# A German and English chat has both; an unknown language has English cues.
READ_AS = [(name, name) for name in LANGUAGES] + [
    ("german", "german+english"),
    ("english", "german+english"),
    ("chinese", "english+chinese"),
    ("english", "simple"),
    ("english", "swedish"),
]


def is_followup(text: str, language: str) -> bool:
    return conversation.is_followup(parse.read(text, ["Ana", "Ben", "Cleo"], NOW, NOW, language))


def sentence(text: str, language: str) -> dialogue_acts.Sentence:
    written = tuple(words(text))
    return dialogue_acts.Sentence(
        message=0, speaker="", text=text, words=written, terms=terms(written, language), language=language
    )


def test_every_language_has_examples_of_every_kind() -> None:
    assert set(EXAMPLES) == set(LANGUAGES)
    every = set(EXAMPLES["english"]) - {"no_number"}
    assert all(every <= set(EXAMPLES[language]) for language in LANGUAGES)


def asks_for(kind: str) -> Callable[[str, str], bool]:
    return lambda text, language: kind in answer_types.asked(text, language)


# What examples of a kind say, and of which kind the counterexamples are.
SAYS: dict[str, Callable[[str, str], bool]] = {
    # without its mark
    "questions": lambda text, language: message_cues.read_cues(text, language).asks > 0.5,
    "times": lambda text, language: message_cues.read_cues(text, language).has_time,
    "numbers": lambda text, language: message_cues.read_cues(text, language).has_number,
    "says_nothing": lambda text, language: message_cues.read_cues(text, language).says_nothing,
    "promises": lambda text, language: dialogue_acts.promises(sentence(text, language)),
    "leans": is_followup,
    # of what was said at a time
    "overview": lambda text, language: parse.read(text, ["Ann Lee"], BEGAN, NOW, language).overview,
    **{kind: asks_for(kind) for kind in ANSWER_TYPES},
}
COUNTER = {
    "statements": "questions",
    "no_times": "times",
    "no_numbers": "numbers",
    "says_something": "says_nothing",
    "stands": "leans",
    "particular": "overview",
    "no_number": "number",
}


@pytest.mark.parametrize(("written", "language"), READ_AS)
def test_a_text_says_by_its_wording_what_it_is_an_example_of(written: str, language: str) -> None:
    examples = [(kind, text) for kind, texts in EXAMPLES[written].items() for text in texts]
    wrong = [(kind, text) for kind, text in examples if kind in SAYS and not SAYS[kind](text, language)]
    wrong += [
        (kind, text) for kind, text in examples if kind in COUNTER and SAYS[COUNTER[kind]](text, language)
    ]
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_of_a_subject_are_no_stop_words(language: str) -> None:
    assert [word for word in EXAMPLES[language]["content"] if not is_content(word, language)] == []
    assert [word for word in EXAMPLES[language]["empty"] if is_content(word, language)] == []


TALK = st.text(max_size=120) | st.lists(
    st.sampled_from([text for kinds in EXAMPLES.values() for texts in kinds.values() for text in texts])
    | st.sampled_from([" ", ". ", "? ", "\n", "…", "！", "'", "@bot ", "İ", "ß"]),
    max_size=6,
).map("".join)
CHATS = st.lists(st.sampled_from([*LANGUAGES, "simple", "swedish", ""]), min_size=1, max_size=3).map("+".join)


@given(TALK, CHATS, st.booleans())
def test_any_text_can_be_read_in_any_language(text: str, language: str, of_a_bot: bool) -> None:
    read = message_cues.read_cues(text, language, of_a_bot=of_a_bot)
    assert 0 <= read.asks <= 1
    assert message_cues.MessageCues.stored(read.asks, read.flags) == read
    assert read == message_cues.read_cues(text, "+".join(reversed(language.split("+"))), of_a_bot=of_a_bot)
    assert dialogue_acts.promises(sentence(text, language)) in (True, False)
    assert is_followup(text, language) in (True, False)
