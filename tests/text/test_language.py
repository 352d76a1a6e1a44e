"""The language of a chat is read off its texts, also off short ones."""

import pytest

from pipeline.text.language import detect
from schemas.languages import normal

SAID = {
    "english": "I think that we should ask them before the end of the week, because they have not paid for it yet.",
    "german": "Ich glaube, dass wir sie noch vor dem Ende der Woche fragen sollten, weil sie es nicht bezahlt haben.",
    "portuguese": "Eu acho que a gente devia falar com eles antes do fim da semana, porque ainda não pagaram nada.",
    "spanish": "Yo creo que tenemos que hablar con ellos antes del fin de la semana, porque no nos han pagado.",
    "russian": "Я думаю, что нам надо с ними поговорить до конца недели, потому что они нам ещё не заплатили.",
    "turkish": "Bence hafta sonundan önce onlarla konuşmalıyız, çünkü bize hâlâ ödeme yapmadılar.",
    "ukrainian": "Я думаю, що нам треба з ними поговорити до кінця тижня, бо вони нам ще не заплатили.",
    "chinese": "我觉得我们应该在周末之前问问他们，因为他们还没有付钱。",
    "japanese": "まだ払ってもらっていないので、週末までに聞いたほうがいいと思います。",
    "thai": "ฉันคิดว่าเราควรถามพวกเขาก่อนสิ้นสัปดาห์ เพราะพวกเขายังไม่ได้จ่ายเงิน",
}


@pytest.mark.parametrize("language", SAID)
def test_a_sentence_tells_its_language_whatever_is_in_none_beside_it(language: str) -> None:
    noise = [
        "https://example.org/the/quick/brown/fox/jumps/over/the/lazy/dog",
        "```def main(): return the_answer if it_is_there else None```",
        "@somebody_with_a_long_english_name_that_goes_on_and_on",
        "😂😂😂",
        "12:30",
    ]
    assert detect([SAID[language]]) == detect([*noise, SAID[language], *noise]) == language


@pytest.mark.parametrize("texts", [[], [""], ["ok", "lol", "haha"], ["34,90 €", "18:30"], ["`x` " * 10_000]])
def test_what_tells_nothing_is_in_no_language(texts: list[str]) -> None:
    assert detect(texts) is None


def test_a_few_words_of_another_language_do_not_make_a_chat_mixed() -> None:
    assert detect([*[SAID["german"]] * 12, SAID["english"], "see you later"]) == "german"
    # nor does a pasted article, which is one message
    assert detect([SAID["english"] * 500, *[SAID["german"]] * 5]) == "german"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("DE", "german"),
        ("zh-Hans", "chinese"),
        ("pt_BR", "portuguese"),
        ("en + de + en", "english+german"),
        ("simple", "simple"),
    ],
)
def test_a_language_is_stored_by_its_name(given: str, name: str) -> None:
    assert normal(given) == name


@pytest.mark.parametrize("given", ["", "klingon", "german+", "+", "en+de+fr+it", "auto"])
def test_what_is_no_language_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r"languages|not one of"):
        normal(given)
