"""A chat looks like the language that its stop words are of, or like none."""

import re
from collections import Counter

import pytest

from pipeline.ingest import languages
from pipeline.store import keyword_search as store
from pipeline.store.database import Database
from tests.conftest import TENANT

SAID = {
    "english": "I think that we should ask them before the end of the week, because they have not paid for it yet.",
    "german": "Ich glaube, dass wir sie noch vor dem Ende der Woche fragen sollten, weil sie es nicht bezahlt haben.",
    "portuguese": "Eu acho que a gente devia falar com eles antes do fim da semana, porque ainda não pagaram nada.",
    "spanish": "Yo creo que tenemos que hablar con ellos antes del fin de la semana, porque no nos han pagado.",
    "french": "Je pense que nous devons leur parler avant la fin de la semaine, car ils ne nous ont pas payé.",
    "italian": "Io penso che noi dobbiamo parlare con loro prima della fine della settimana, e non ci hanno pagato.",
    "dutch": "Ik denk dat wij met hen moeten praten voor het einde van de week, want ze hebben ons nog niet betaald.",
    "swedish": "Jag tror att vi måste tala med dem före slutet av veckan, för de har inte betalat oss.",
    "russian": "Я думаю, что нам надо с ними поговорить до конца недели, потому что они нам ещё не заплатили.",
}


def looks(database: Database, text: str, declared: str) -> str | None:
    words = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    with database.tenant(TENANT) as connection:
        return languages.looks_like(store.stop_words(connection, words), words.total(), declared)


@pytest.mark.parametrize("language", SAID)
def test_a_sentence_or_two_tell_the_language(shared: Database, language: str) -> None:
    text = f"{SAID[language]} " * 2
    assert looks(shared, text, language) is None
    declared = "german" if language == "english" else "english"
    assert looks(shared, text, declared) == language


@pytest.mark.parametrize(
    "text", ["", "ok", "def main(): return x if x in a else None", "Fibralonga 34,90 Ondaclara"]
)
def test_what_tells_nothing_looks_like_nothing(shared: Database, text: str) -> None:
    assert looks(shared, text, "english") is None


def test_who_has_declared_none_is_told_of_none(shared: Database) -> None:
    assert looks(shared, SAID["german"] * 3, "simple") is None
