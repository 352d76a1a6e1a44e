"""Words of much the same meaning."""

import re

from hypothesis import given
from hypothesis import strategies as st

from pipeline.question.thesaurus import THESAURI, translated, wording


def test_a_question_about_a_job_is_also_one_about_a_career() -> None:
    asked = wording("english", ["job", "new"])
    (meant, share) = asked.related["career"][0]
    assert meant == "job"
    assert 0.5 < share < 1
    assert asked.all[:2] == ["job", "new"]


def test_what_a_message_says_is_told_from_what_may_stand_in_its_place() -> None:
    own, others = wording("english", ["job"]).read({"job": 2, "career": 1})
    assert own == {"job": 2}
    assert 0.5 < others["job"] < 1


def test_a_word_of_the_question_stands_in_no_other_s_place() -> None:
    assert "career" not in wording("english", ["job", "career"]).related


def test_a_language_without_a_thesaurus_goes_without() -> None:
    for language in ("simple", "portuguese", "../english", "english.tsv"):
        assert wording(language, ["job"]).all == ["job"]


def test_every_line_of_the_english_one_can_be_read() -> None:
    lines = (THESAURI / "english.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("#")
    assert len(lines) > 10_000
    for line in lines[1:]:
        assert re.fullmatch(r"[a-z]+\t[a-z]+:\d{1,2}( [a-z]+:\d{1,2})*", line), line


@given(
    st.dictionaries(st.sampled_from(["job", "career", "work", "boat", "ship", "vessel"]), st.integers(1, 9))
)
def test_no_word_counts_for_more_than_it_is_there(counted: dict[str, int]) -> None:
    own, others = wording("english", ["job", "boat"]).read(counted)
    assert set(own) | set(others) <= {"job", "boat"} | set(counted)
    assert sum(own.values()) + sum(others.values()) <= sum(counted.values()) * 2


def test_common_words_of_other_languages_stand_for_english_ones() -> None:
    assert wording("english", ["miet", "zahlt"]).related["rent"] == [("miet", 0.8)]
    assert translated("english", "Wo ist der Schlüssel?") == "Wo ist der key?"
    assert translated("english", "Where is the key?") == "Where is the key?"
    assert translated("portuguese", "Wo ist der Schlüssel?") == "Wo ist der Schlüssel?"


def test_no_english_word_is_taken_for_one_of_another_language() -> None:
    english = {line.partition("\t")[0] for line in (THESAURI / "english.tsv").read_text("utf-8").splitlines()}
    lines = (THESAURI / "english_abroad.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("#")
    for line in filter(lambda line: not line.startswith("#"), lines):
        assert re.fullmatch(r"\S+\t[a-z]+:80( [a-z]+:80)*\t\w+=[a-z]+( \w+=[a-z]+)*", line), line
        assert line.partition("\t")[0] not in english
