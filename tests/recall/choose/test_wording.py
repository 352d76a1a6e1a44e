"""A context in the language of its chat: headings, dates and guardrails, in twelve languages."""

from datetime import date
from string import Formatter

import pytest

from pipeline.recall.choose.lines import Wording, wording_of
from pipeline.text.fencing import TAG
from pipeline.text.languages import LANGUAGES

# The slots of each form that is filled in; the other fields are used as they are.
SLOTS = {
    "today": {"day", "clock"},
    "question": {"query"},
    "question_from": {"asker", "query"},
    "answering": {"speaker", "answered"},
    "quoting": {"speaker", "answered", "said"},
    "forwarded": {"speaker"},
    "forwarded_from": {"speaker", "author"},
    "day_form": {"day", "month", "year"},
    "heading_form": {"day", "weekday"},
    "moment_form": {"day", "clock"},
    **{name: {"day"} for name in ("since", "starting", "until", "on")},
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_form_of_a_language_has_its_slots_and_names_the_fence(language: str) -> None:
    wording = wording_of(language)
    assert wording.language == language
    assert TAG in wording.guardrails
    assert (len(wording.months), len(wording.weekdays)) == (12, 7)
    assert set(wording.scopes) == {"session", "user", "agent", "organization"}
    for name in Wording.__dataclass_fields__:
        value = getattr(wording, name)
        if isinstance(value, str):
            slots = {slot for _, slot, _, _ in Formatter().parse(value) if slot is not None}
            assert value
            assert slots == SLOTS.get(name, set()), name
    if language != "english":
        english = wording_of("english")
        assert wording.history != english.history
        assert wording.guardrails != english.guardrails


@pytest.mark.parametrize(
    ("language", "day", "heading"),
    [
        ("english", "8 May 2023", "8 May 2023, Monday"),
        ("german", "8. Mai 2023", "8. Mai 2023, Montag"),
        ("french", "8 mai 2023", "lundi 8 mai 2023"),
        ("russian", "8 мая 2023", "8 мая 2023, понедельник"),
        ("japanese", "2023年5月8日", "2023年5月8日（月曜日）"),
    ],
)
def test_dates_are_written_as_in_their_language(language: str, day: str, heading: str) -> None:
    wording = wording_of(language)
    assert (wording.day(date(2023, 5, 8)), wording.day_heading(date(2023, 5, 8))) == (day, heading)


def test_the_first_of_a_month_and_languages_without_a_wording() -> None:
    assert wording_of("french").day(date(2026, 3, 1)) == "1er mars 2026"
    assert wording_of("german+english").language == "german"
    assert wording_of("simple").language == wording_of("").language == "english"
