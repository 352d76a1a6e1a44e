"""Whom a question names: by the whole name, a handle, or a part that is a name in this use."""

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.question import names, parse
from tests.recall.question.times import EARLIEST, NOW

GROUP = [
    "Plumber Joe",
    "Anna Work",
    "John from the gym",
    "Dr House",
    "+351 912 345 678",
    "Ana Silva",
    "Ana Costa",
]


def read(text: str, people: list[str], language: str = "english") -> parse.Question:
    return parse.read(text, people, EARLIEST, NOW, language)


@pytest.mark.parametrize(
    ("text", "people", "content"),
    [
        ("what did Joe say about tiles?", {"Plumber Joe": 1}, "what did Joe say about tiles?"),
        ("what did Plumber Joe say?", {"Plumber Joe": 1}, "what did say?"),
        ("when did anna move", {"Anna Work": 1}, "when did move"),
        ("what does House think?", {"Dr House": 1}, "what does House think?"),
        # words of a display name that are no names stay words
        *(
            (text, {}, text)
            for text in ("when does the plumber come?", "what's in room 345", "Is the House sold?")
        ),
    ],
)
def test_a_part_that_is_a_name_names_its_owner(text: str, people: dict[str, float], content: str) -> None:
    asked = read(text, GROUP)
    assert asked.speakers == people
    assert asked.content == content


@pytest.mark.parametrize(
    ("text", "person"),
    [
        ("what did jose say", "José"),
        ("where is Lukasz from?", "Łukasz Nowak"),
    ],
)
def test_a_name_is_found_with_and_without_its_accents(text: str, person: str) -> None:
    asked = read(text, [person, "Ben"])
    assert asked.speakers == {person: 1}
    assert asked.names


@pytest.mark.parametrize(
    ("text", "people", "content"),
    [
        ("what did we buy in May?", {}, "what did we buy ?"),
        ("what did May buy in May?", {"May Chen": 1}, "what did May buy ?"),
        ("who has a message from May?", {"May Chen": 1}, "who has a message from May?"),
    ],
)
def test_a_month_is_nobody_who_is_called_like_it(text: str, people: dict[str, float], content: str) -> None:
    asked = read(text, ["May Chen", "Ben"])
    assert asked.speakers == people
    assert asked.content == content


def test_of_two_with_one_name_each_is_named_by_half() -> None:
    asked = read("what did Ana say?", GROUP)
    assert asked.speakers == {"Ana Silva": 0.5, "Ana Costa": 0.5}
    assert asked.names == ("Ana",)
    assert read("what did Ana Costa say?", GROUP).speakers == {"Ana Costa": 1}


def test_a_handle_names_its_owner_and_nobody_else() -> None:
    people = ["ben.k", "rose_42", "@kim", "Work"]
    assert read("what does @ben.k owe?", people).speakers == {"ben.k": 1}
    assert read("what did rose_42 write", people).speakers == {"rose_42": 1}
    assert read("ask kim", people).speakers == {"@kim": 1}
    assert read("is @Work there", people).speakers == {"Work": 1}
    assert read("is work over", people).speakers == {}


def test_a_name_that_is_a_word_counts_where_it_is_written_as_a_name() -> None:
    people = ["Will", "Rose", "Olek"]
    assert read("what did Will say", people).speakers == {"Will": 1}
    assert read("will the plumber come", people).speakers == {}
    assert read("Will the plumber come", people).speakers == {}
    # and it stays a word as well
    assert read("which rose did Rose cut", people).content == "which rose did Rose cut"
    assert read("which rose did Rose cut", people).speakers == {"Rose": 1}


@pytest.mark.parametrize(
    ("language", "people", "text", "named"),
    [
        ("german", ["Peter Koch", "Sommer", "Mark", "Olek Wolf"], "wann kommt der Koch?", set()),
        ("german", ["Peter Koch", "Sommer", "Mark", "Olek Wolf"], "Was hat der Olek gesagt?", {"Olek Wolf"}),
        ("german", ["Anna Berg", "Olek"], "Annas Rad, wo ist das?", {"Anna Berg"}),
        ("italian", ["Rosa", "Gino"], "la rosa è di Gino?", {"Gino"}),
        ("polish", ["Anna Nowak", "Marek"], "co mówiłaś Annie o piecu?", {"Anna Nowak"}),
        ("russian", ["Анна", "Иван Петров"], "что Анне подарили?", {"Анна"}),
        ("english+russian", ["Анна", "Иван Петров"], "что Анне подарили?", {"Анна"}),
        ("turkish", ["Elif", "Deniz Kaya"], "Elif'in arabası nerede?", {"Elif"}),
        # where no letter is a capital
        ("german", ["ليلى حسن", "Ben"], "Was hat ليلى gesagt?", {"ليلى حسن"}),
        ("arabic", ["ليلى حسن", "عمر"], "ماذا قالت ليلى عن المفتاح؟", {"ليلى حسن"}),
        ("hindi", ["आशा वर्मा", "Ben"], "आशा ने चाबी कहाँ रखी?", {"आशा वर्मा"}),
        ("chinese", ["李明", "王小红"], "李明什么时候来修锅炉", {"李明"}),
        ("japanese", ["佐々木健", "林太郎"], "佐々木さんと小林さんは?", {"佐々木健"}),
        ("japanese", ["佐々木健", "佐々木"], "佐々木さんは?", {"佐々木"}),
    ],
)
def test_names_are_told_from_words(language: str, people: list[str], text: str, named: set[str]) -> None:
    found = names.find(text, people, language)
    assert set(found.shares) == named
    assert len(found.names) == len(named)


@pytest.mark.parametrize("people", [["Olek"], ["Olek Wolf"]])
@pytest.mark.parametrize(
    ("language", "text", "content"),
    [
        ("german", "Was hat Olek gesagt?", "Was hat gesagt?"),
        # a noun, or a name, and so searched for as well
        ("german", "Was hat der Olek gesagt?", "Was hat der Olek gesagt?"),
        ("english", "what did the Olek say?", "what did the say?"),
    ],
)
def test_where_nouns_have_capitals_one_with_an_article_stays_a_word(
    people: list[str], language: str, text: str, content: str
) -> None:
    asked = read(text, [*people, "Ben"], language)
    assert (asked.speakers, asked.content) == ({people[0]: 1}, content)


def test_of_very_many_words_the_most_telling_are_looked_up() -> None:
    text = "and then we talked about it " * 300 + "the boiler E41 of Kranz in Almada"
    told = parse.most_specific(text, "english").split()
    assert {"boiler", "E41", "Kranz", "Almada"} <= set(told)
    assert len(set(told)) <= parse.MAX_TERMS
    unspaced = "锅炉什么时候修好" * 50 + "".join(map(chr, range(0x4E00, 0x4F00)))
    assert len(parse.most_specific(unspaced, "chinese").split()) == parse.MAX_TERMS
    assert parse.most_specific("when does the plumber come?", "english") == "when does the plumber come?"


# Letters of many scripts, each with what is around it.
SPACED = {
    "latin": ["ż", "é", "q", "ñ", "x", "ø"],
    "greek": ["ά", "β", "ψ", "ώ"],
    "cyrillic": ["й", "ж", "щ", "э"],
    "arabic": ["م", "ح", "د", "ؤ", "أ"],
    "hebrew": ["ד", "ו", "ג", "שׁ"],
    "devanagari": ["क़", "नि", "शा", "र्"],
    "tamil": ["கா", "னி", "ம்"],
    "hangul": ["민", "수", "영", "가"],
    "ethiopic": ["ሰ", "ላ", "ም"],
    "adlam": ["𞤢", "𞤣𞥄", "𞤥", "𞤤"],
    "deseret": ["𐐨", "𐐪", "𐐫"],
}
UNSPACED = {
    "thai": ["กำ", "ต้", "น", "ก"],
    "khmer": ["សុ", "ខា", "ក្រ", "ម"],
    "burmese": ["အော", "င်", "ဆ", "န်း"],
    "kana": ["が", "サ", "ト", "ウ"],
    "han": ["渡", "邉", "太", "𠮷"],
}
UNSEEN = [
    "\u00ad",
    "\u200b",
    "\u200c",
    "\u200d",
    "\u200e",
    "\u200f",
    "\u2060",
    "\ufeff",
    "\ufe0f",
    "\U000e0102",
]
FORMS = st.sampled_from(("NFC", "NFD", "NFKC", "NFKD"))


def signs(scripts: dict[str, list[str]]) -> st.SearchStrategy[list[str]]:
    letters = st.sampled_from(sorted(scripts)).map(scripts.__getitem__)
    return letters.flatmap(lambda script: st.lists(st.sampled_from(script), min_size=4, max_size=8))


@given(
    signs(SPACED | UNSPACED),
    st.lists(st.sampled_from([" ", "\n", "?", "(", "»", "،", "。", *UNSEEN]), min_size=2, max_size=2),
    st.sampled_from(["", *UNSEEN]),
    FORMS,
    FORMS,
)
def test_a_name_that_stands_alone_is_found_however_it_is_written(
    name: list[str], around: list[str], inside: str, form: str, other: str
) -> None:
    person = normalize(form, "".join(name))
    written = normalize(other, "".join(name[:2])) + inside + normalize(other, "".join(name[2:]))
    assert names.find(f"! {around[0]}{written}{around[1]} ?", [person]).shares == {person: 1}


@given(signs(SPACED), st.integers(1, 3), FORMS)
def test_a_name_is_not_found_inside_of_a_longer_word(word: list[str], end: int, form: str) -> None:
    text = normalize(form, f"? {''.join(word)} ?")
    for part in (word[:-end], word[end:]):
        assert not names.find(text, ["".join(part)]).shares or "".join(part) == "".join(word)


@pytest.mark.parametrize(
    ("person", "text", "is_named"),
    [
        # the vowels of Arabic and Hebrew are mostly left out
        ("محمد", "ماذا قال مُحَمَّد؟", True),
        ("مُحَمَّد", "ماذا قال محمد؟", True),
        ("דוד", "מה אמר דָּוִד?", True),
        ("ג׳ורג׳", "מה אמר ג'ורג'?", True),
        # and so are the dots of ё, and the hamza of alef; Persian has letters of its own for some
        ("Пётр", "что сказал Петр?", True),
        ("أحمد", "ماذا قال احمد؟", True),
        ("علی", "أين علي؟", True),
        # the half width of kana, the full width of Latin
        ("ｻﾄｳ", "サトウは?", True),
        ("Ann", "what did Ａｎｎ say?", True),
        ("O’Brien", "what did O'Brien say?", True),
        ("Olivier", "quel est le numéro d'Olivier ?", True),
        ("Anne Faure", "l’avis d’Anne", True),
        ("Charles d'Artagnan", "what did d'Artagnan say?", True),
        ("Charles d'Artagnan", "che cosa ha detto Artagnan?", True),
        ("Brien", "what did O'Brien say?", False),
        ("សុខា", "តើសុខានិយាយអ្វី", True),
        # other letters
        ("กา", "ก้าไหน", False),
        ("นก", "นกำไร", False),
        ("រម", "ក្រម", False),
        ("グリ", "クリは", False),
    ],
)
def test_a_name_is_told_by_its_letters_and_not_by_what_people_leave_out(
    person: str, text: str, is_named: bool
) -> None:
    assert bool(names.find(text, [person, "Olek"]).shares) == is_named
