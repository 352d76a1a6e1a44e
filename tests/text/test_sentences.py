"""Messages are taken apart where people end their sentences, and nowhere else."""

import pytest

from pipeline.text.cues.answer_types import words_of
from pipeline.text.keyphrases import keyphrases
from pipeline.text.sentences import sentences, words
from tests.text.builders import listed


@pytest.mark.parametrize(
    "said",
    listed("""
        Wir treffen uns am 3. Mai um 8 Uhr im Hof. | Weihnachtsfeier am 11.12. beim Bowling, 19 Uhr
        Denkt dran: bis 4.5. Abgabe der Trikots! | vom 11.12. bis 13.12. Hütte | Kino am 11.12. 19 Uhr
        am 3. und 4. juli ist Turnier | Wir sehen uns am 30. um acht.
        Vergadering op 12. maart in de kantine. | 3. Mayıs günü buluşalım.
        Vuelo IB6401 sale 8 feb. 12:05 de la T4 | We fly on Dec. 5 in the evening.
    """),
)
def test_a_date_is_not_torn_apart(said: str) -> None:
    assert sentences(said) == [said]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Das Fest ist am 11.12.", "Wer kommt mit?"),
        ("Abgabe war am 4.5.2026.", "Steffi hat sie."),
        ("It costs 46.50.", "Bob pays."),
        ("Meet me in Dec.", "Bring 5 friends."),
    ],
)
def test_a_sentence_ends_after_a_number_as_well(first: str, second: str) -> None:
    assert sentences(f"{first} {second}") == [first.strip(), second]


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ("आशा ने कहा: बॉयलर की मरम्मत", "आशा|ने|कहा|बॉयलर|की|मरम्मत"),
        ("ঢাকা যাবো কাল", "ঢাকা|যাবো|কাল"),
        ("கவிதா என்ன சொன்னார்?", "கவிதா|என்ன|சொன்னார்"),
        ("رَجُلٌ می‌خواهم", "رَجُلٌ|می‌خواهم"),
        # as macOS writes é
        ("cafe\u0301 a la une", "cafe\u0301|a|la|une"),
        # pairs of letters where there are no spaces, each with what is around it
        ("ที่บ้าน", "ที่บ้|บ้า|าน"),
        ("1\ufe0f\u20e3 ❤️", "1"),
        ("𞤀𞤣𞥄𞤤𞤢𞤥 𐐨𐐪", "𞤀𞤣𞥄𞤤𞤢𞤥|𐐨𐐪"),
        ("ខ្មែរ", "ខ្មែរ"),
        ("𠮷野家", "𠮷野|野家"),
        # what is not seen parts no word, but for the space of no width
        ("Hand\u00adball Ann\u200d? x\u2060y 渡邉\U000e0102太 go\u200bup", "Handball|Ann|xy|渡邉|邉太|go|up"),
        # Hebrew's abbreviations, as they are typed and as they are set
        ('צה״ל צה"ל "שלום"', "צה״ל|צה״ל|שלום"),
        ("ג׳ורג ג'ורג ג’ורג", "ג׳ורג|ג׳ורג|ג׳ורג"),
    ],
)
def test_a_letter_is_never_parted_from_its_vowels_and_accents(said: str, whole: str) -> None:
    assert words(said) == whole.split("|")


def test_a_joiner_after_a_word_is_no_part_of_it() -> None:
    assert words_of("wann\u200d? می\u200cخواهم\u200c.") == ["wann", "می\u200cخواهم"]


def test_an_abbreviation_is_a_topic_as_a_whole() -> None:
    texts = [
        f'{before} רמטכ"ל {after}' for before, after in (("דיבר", "אתמול"), ("פגש", "מחר"), ("ראה", "היום"))
    ]
    assert "רמטכ״ל" in keyphrases(texts, [], [], "hebrew", limit=3).topics
