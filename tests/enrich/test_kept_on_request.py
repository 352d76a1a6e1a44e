"""What people tell a bot to keep is kept in their own words, and nothing else is."""

from dataclasses import replace

import pytest

from pipeline.enrich.facts.kept_on_request import RequestExtractor
from pipeline.enrich.protocols import People
from pipeline.store.connections.database import Database
from pipeline.text.fencing import CLOSE, OPEN
from schemas.facts import Fact
from tests.harness.learning import DIRECT as CHAT
from tests.harness.learning import Talk
from tests.text.builders import conversation, listed, message

DIRECT = People(kind="direct", names={"Ann": "telegram:Ann"}, agent="Pip")
GROUP = replace(DIRECT, kind="group", names={"Ann": "telegram:Ann", "Боб": "telegram:Боб"})


@pytest.fixture
def talk(database: Database) -> Talk:
    return Talk(database)


def kept(*lines: str, people: People = DIRECT, role: str = "user") -> list[Fact]:
    said = [message(line, "Ann", minute=n, id=n, role=role) for n, line in enumerate(lines, start=1)]
    return RequestExtractor().extract(said, people=people, max_facts=9)


def pairs(texts: str) -> list[tuple[str, str]]:
    """What is said and what is kept of it."""
    return [(said, kept) for said, _, kept in (each.partition(" = ") for each in listed(texts))]


STATEMENTS = pairs("""
    Please remember that I'm allergic to hazelnuts. = I'm allergic to hazelnuts
    hey Pip, remember: the code is 4711! = the code is 4711
    Don't forget that Dr. Silva moved = Dr. Silva moved
    Merk dir bitte, dass ich Veganerin bin = ich Veganerin bin
    N'oublie pas qu'elle habite à Évora = elle habite à Évora
    Recuerda que soy alérgica a las nueces = soy alérgica a las nueces
    Lembra-te que o código é 4711 = o código é 4711 | ricordati che sono vegana = sono vegana
    Onthoud dat ik allergisch ben voor noten = ik allergisch ben voor noten
    Zapamiętaj, że jestem weganką = jestem weganką | unutma ki fıstığa alerjim var = fıstığa alerjim var
    Запомни, что у меня аллергия на орехи = у меня аллергия на орехи | 请记住我对花生过敏。 = 我对花生过敏
    私はナッツアレルギーだということを覚えておいて = 私はナッツアレルギーだ
""")
NAMES = pairs("""
    call me Bea! = bea | ok Pip, call me "Bea" = bea | Nenn mich bitte Bea = bea
    du kannst mich Bea nennen = bea | appelle-moi Zoé = zoé | llámame Bea = bea | me chama de Bia = bia
    chiamami Bea = bea | noem me maar Bea = bea | mów mi Łucja = łucja | bana İpek de = ipek
    зови меня Маша = маша | 以后叫我小雨 = 小雨 | これからはベアって呼んでください = ベア
""")


@pytest.mark.parametrize(("said", "statement"), STATEMENTS)
def test_what_somebody_asks_to_be_remembered_is_kept_word_for_word(said: str, statement: str) -> None:
    (fact,) = kept(said)
    assert (fact.content, fact.about, fact.subject) == (f"Ann: {statement}", "speaker", "Ann")
    assert fact.message_ids == (1,)


@pytest.mark.parametrize(("said", "name"), NAMES)
def test_how_somebody_wants_to_be_called_is_kept(said: str, name: str) -> None:
    (fact,) = kept(said)
    assert (fact.attribute, fact.value) == ("name", name)
    assert name in fact.content.casefold().replace("i̇", "i")


@pytest.mark.parametrize(
    "said",
    [
        # questions
        "do you remember that I'm vegan?",
        "вспомни, что ты обещал",
        # quotations, and what others said
        '"remember that I live in Porto", she said',
        "> remember that I live in Porto",
        "```\nremember that I live in Porto\n```",
        "Lena wrote: nice here. Remember that I live in Porto.",
        "Боб:\nзапомни, что я живу в Порту",
        f"{OPEN}remember that I live in Porto{CLOSE}",
        # what only sounds like it
        "call me BEFORE not during",
        # what rules are not for
        "ok decided: we take the blue room",
    ],
)
def test_nothing_else_is_kept(said: str) -> None:
    assert kept(said) == []


def test_neither_a_bot_nor_who_forwards_a_message_asks_for_anything() -> None:
    said = "remember that I live in Porto"
    assert kept(said, role="assistant") == []
    passed_on = message(said)._replace(metadata={"forwarded_from": "Lena"})
    assert RequestExtractor().extract([passed_on], people=DIRECT) == []


def test_in_a_group_only_what_is_said_to_the_bot_is_kept() -> None:
    assert kept("remember that the bins go out on Monday", people=GROUP) == []
    for said in ("Pip, remember that I'm vegan", "@garden_bot remember that I'm vegan"):
        assert [fact.about for fact in kept(said, people=GROUP)] == ["speaker"]
    # also as an answer to it
    bot, ann = conversation("Pip: anything else?", "Ann: merk dir, dass ich Veganerin bin")
    said_to_it = [bot._replace(role="assistant"), ann._replace(reply_to=bot.external_id)]
    assert len(RequestExtractor().extract(said_to_it, people=GROUP)) == 1


@pytest.mark.parametrize(
    "said",
    [
        "Pip, remember that we meet on Mondays",
        "Pip，记住我们周一开会",
    ],
)
def test_what_a_group_says_of_itself_is_the_groups(said: str) -> None:
    (fact,) = kept(said, people=GROUP)
    assert (fact.about, fact.subject) == ("organization", "")
    # where nobody else is it is the speaker's
    assert [each.about for each in kept(said)] == ["speaker"]


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("remember that the code is 4711", "that's wrong"),
        ("запомни, что код 4711", "забудь это"),
        ("记住密码是4711", "不对"),
    ],
)
def test_what_is_taken_back_soon_is_not_kept(said: str, wrong: str) -> None:
    assert kept(said, wrong) == []
    assert len(kept(said, *["ok"] * 9, wrong)) == 1


def test_in_another_session_it_is_corrected_too(talk: Talk) -> None:
    # Given what Ann told a bot
    talk.reading = RequestExtractor()
    said = ["remember that my exam is on Friday", "merk dir, dass der Code 4711 ist", "call me Bea"]
    for hour, each in enumerate(said):
        talk.say(24 * hour, each, chat=CHAT)
    talk.learn()
    assert {content for _, content in talk.known()} == {
        "Ann: my exam is on Friday",
        "Ann: der Code 4711 ist",
        "Ann: call me Bea",
    }
    # When she says otherwise days later, then only that holds
    for day, each in enumerate(
        ["remember that my exam is on Monday", "vergiss, dass der Code 4711 ist", "call me Annie"], start=7
    ):
        talk.say(24 * day, each, chat=CHAT)
    talk.learn()
    later = {"Ann: my exam is on Monday", "Ann: vergiss, dass der Code 4711 ist", "Ann: call me Annie"}
    assert {content for _, content in talk.known()} == later
    # and what she forgot may be kept again
    talk.say(24 * 20, "merk dir, dass der Code 4711 ist", chat=CHAT)
    talk.learn()
    assert "Ann: der Code 4711 ist" in {content for _, content in talk.known()}
    assert "Ann: vergiss, dass der Code 4711 ist" not in {content for _, content in talk.known()}
