"""Facts by rules: what people state is learned, in two languages, and nothing else."""

import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.enrich.protocols import FactExtractor, People, Source
from pipeline.enrich.stated_facts.extractor import RuleExtractor
from pipeline.enrich.stated_facts.rules import BY_LANGUAGE, LANGUAGES
from pipeline.text.fencing import CLOSE, OPEN
from schemas.facts import MAX_FACT_CHARS, RULES
from tests.enrich.stated import DIRECT, GROUP, learned
from tests.text.builders import conversation, message

FIELD = re.compile(r"\{([a-z ]+)\}")
ENGLISH = [
    ("my name is Ann Lee", "Ann is called Ann Lee.", "name", "ann lee"),
    ("please call me Annie!", "Ann is called Annie.", "name", "annie"),
    ("I live in Porto, near the river", "Ann lives in Porto.", "home", "porto"),
    ("well, we just moved from Porto to Lisbon", "Ann moved from Porto to Lisbon.", "home", "lisbon"),
    ("I don't live in Porto any more", "Ann does not live in Porto.", "home", "not porto"),
    ("I'm originally from Brazil", "Ann comes from Brazil.", "origin", "brazil"),
    ("I've been working at Acme since March 2024", "Ann works at Acme.", "employer", "acme"),
    ("I'm a nurse", "Ann works as a nurse.", "occupation", "nurse"),
    ("I quit my job", "Ann has left or lost their job.", "employer", "none"),
    ("I'm studying biology", "Ann studies biology.", "studies", "biology"),
    ("I'm vegan now", "Ann is vegan.", "diet", "vegan"),
    ("I'm no longer vegan", "Ann is not vegan.", "diet", "not vegan"),
    (
        "btw I'm allergic to hazelnuts, so no cake",
        "Ann is allergic to hazelnuts.",
        "allergic hazelnut",
        "yes",
    ),
    ("I don't eat meat any more", "Ann does not eat meat.", "consumes meat", "no"),
    ("I'm lactose intolerant", "Ann is lactose intolerant.", "health lactose", "yes"),
    ("I love olives", "Ann likes olives.", "likes olive", "yes"),
    ("I can't stand olives", "Ann does not like olives.", "likes olive", "no"),
    ("my favourite colour is green", "Ann's favourite colour is green.", "favourite colour", "green"),
    ("I prefer tea to coffee", "Ann prefers tea to coffee.", "prefers coffee or tea", "tea"),
    ("I speak Dutch", "Ann speaks Dutch.", "speaks dutch", "yes"),
    ("my birthday is on May 12th", "Ann has their birthday on 12 May.", "birthday", "05-12"),
    ("my exam is on Friday", "Ann has an exam on 6 March 2026.", "date of exam", "2026-03-06"),
    ("my sister Lena is here", "Lena is Ann's sister.", "sister lena", "yes"),
    ("this is about my wife Sara", "Sara is Ann's wife.", "partner", "sara"),
    ("we broke up", "Ann has broken up with their partner.", "partner", "none"),
    ("I have a dog called Rex", "Ann has a dog called Rex.", "pet rex", "yes"),
    ("we sold our car", "Ann has no car any more.", "owns car", "no"),
    ("I'm training for a marathon", "Ann is preparing for a marathon.", "preparing for marathon", "yes"),
    ("my number is +351 900 000 147", "Ann has the phone number +351 900 000 147.", "phone", "351900000147"),
    ("remember that the boiler code is 4711", "Ann asked to remember: the boiler code is 4711.", "", ""),
    ("my mum lives in Leeds", "Ann's mother lives in Leeds.", "mother home", "leeds"),
    ("mum's in hospital", "Ann's mother is in hospital.", "mother in hospital", "yes"),
    ("mum is back home from hospital", "Ann's mother is out of hospital.", "mother in hospital", "no"),
    ("thursdays are choir", "Ann has choir on thursdays.", "choir day", "thursdays"),
    ("the choir's moved, choir's on mondays now", "Ann has choir on mondays.", "choir day", "mondays"),
    ("I turn 40 on the 17th of April", "Ann has their birthday on 17 April.", "birthday", "04-17"),
    ("I'm lucky to have my husband", "Ann has a husband.", "relation husband", "yes"),
    (
        "I launched an ad campaign for my shop last week",
        "Ann launched an ad campaign for their shop in the week of 23 February 2026.",
        "",
        "",
    ),
    ("Yesterday I went to an art workshop", "Ann went to an art workshop on 1 March 2026.", "", ""),
    (
        "we're hosting a dance competition next month",
        "Ann is hosting a dance competition in April 2026.",
        "",
        "",
    ),
    ("I just got accepted for an internship", "Ann got accepted for an internship.", "", ""),
    (
        "I started volunteering at a dog shelter",
        "Ann volunteers at a dog shelter.",
        "volunteers dog shelter",
        "yes",
    ),
    (
        "I've been looking into counseling as a career",
        "Ann is considering counseling as a career.",
        "",
        "",
    ),
    ("I graduated last week", "Ann graduated in the week of 23 February 2026.", "graduated", "yes"),
    ("my visa ends on 30 of June", "Ann's visa ends on 30 June 2026.", "end of visa", "2026-06-30"),
    ("my mother lands 20 of march", "Ann's mother arrives on 20 March 2026.", "mother arrival", "2026-03-20"),
    ("I'm a bit in love with Bob", "Ann is in love with Bob.", "feelings for bob", "love"),
    ("my dad turned seventy", "Ann's father is seventy years old.", "father age", "seventy"),
    ("I get seasick on the ferry", "Ann gets seasick.", "health seasick", "yes"),
    ("I eat fish again", "Ann has fish again.", "consumes fish", "yes"),
    ("no alcohol since January", "Ann does not have any alcohol.", "consumes alcohol", "no"),
    (
        "you're looking at the new head of department",
        "Ann is the new head of department.",
        "occupation",
        "head of department",
    ),
]
GERMAN = [
    ("ich heiße Annegret", "Ann heißt Annegret.", "name", "annegret"),
    ("ich wohne in Porto", "Ann wohnt in Porto.", "home", "porto"),
    ("jetzt wohne ich in Graz", "Ann wohnt in Graz.", "home", "graz"),
    ("ich bin nach Linz gezogen", "Ann ist nach Linz gezogen.", "home", "linz"),
    ("ich arbeite bei Siemens", "Ann arbeitet bei Siemens.", "employer", "siemens"),
    ("ich bin Lehrerin", "Ann arbeitet als Lehrerin.", "occupation", "lehrerin"),
    ("ich habe gekündigt!", "Ann hat die Arbeitsstelle nicht mehr.", "employer", "none"),
    ("ich bin gegen Nüsse allergisch", "Ann ist allergisch gegen Nüsse.", "allergic nüsse", "yes"),
    ("ich mag keine Oliven", "Ann mag nicht: Oliven.", "likes oliven", "no"),
    ("ich liebe Oliven", "Ann mag Oliven.", "likes oliven", "yes"),
    ("mein Geburtstag ist am 12. Mai", "Ann hat am 12. Mai Geburtstag.", "birthday", "05-12"),
    ("meine Schwester heißt Lena", "Lena ist die Schwester von Ann.", "sister lena", "yes"),
    ("ich spreche Polnisch", "Ann spricht Polnisch.", "speaks polnisch", "yes"),
    ("ich wohn in Graz", "Ann wohnt in Graz.", "home", "graz"),
    ("ich bleib hier in Bristol", "Ann bleibt in Bristol.", "home", "bristol"),
    ("Die Wohnung in Kassel hab ich abgesagt", "Ann hat die Wohnung in Kassel abgesagt.", "", ""),
    ("montags hab ich Chor", "Ann hat montags Chor.", "chor day", "montags"),
    ("ich geh seit letzter Woche zur Therapie", "Ann geht zu: Therapie.", "goes to therapie", "yes"),
    (
        "jetzt jeden Morgen eine Eisentablette",
        "Ann nimmt jeden Morgen eine Eisentablette.",
        "takes eisentablette",
        "jeden morgen",
    ),
    ("Im Sommer zurück nach Kassel", "Ann will zurück nach Kassel ziehen.", "moving to", "kassel"),
    ("ich ess längst auch wieder Wurst", "Ann isst oder trinkt wieder Wurst.", "consumes wurst", "yes"),
    ("mein Mann kocht", "Ann hat einen Mann.", "relation husband", "yes"),
    (
        "Oma ist im Krankenhaus",
        "Die Großmutter von Ann ist im Krankenhaus.",
        "grandmother in hospital",
        "yes",
    ),
    ("merk dir, dass der Code 4711 ist", "Ann bat, sich zu merken: der Code 4711 ist.", "", ""),
]


@pytest.mark.parametrize(
    ("language", "said", "content", "attribute", "value"),
    [("english", *each) for each in ENGLISH] + [("german", *each) for each in GERMAN],
)
def test_what_somebody_states_of_themselves_is_learned(
    language: str, said: str, content: str, attribute: str, value: str
) -> None:
    (fact,) = learned(said, language=language)
    assert (fact.content, fact.attribute, fact.value) == (content, attribute, value)
    assert (fact.about, fact.subject, fact.message_ids) == ("speaker", "Ann", (1,))
    assert fact.confidence >= 0.7


@pytest.mark.parametrize(
    "said",
    [
        "do I live in Porto?",
        "if I lived in Porto, I'd be happy",
        "I wish I lived in Porto",
        "maybe I live in Porto one day",
        "I almost moved to Porto",
        "I used to live in Rome",
        "Tom says I'm allergic to nuts",
        'she told me "I live in Porto"',
        "> I live in Porto",
        "```\nI live in Porto\n```",
        f"{OPEN}I live in Porto{CLOSE}",
        "I'm allergic to mornings lol",
        "I'm tired",
        "I'm so happy for you",
        "I love you all",
        "I love this song",
        "I love how it turned out",
        "I live here",
        "I want to thank you",
        "I work from home tomorrow",
        "I'm married to my job",
        "my friend Monday",
        "call me ASAP",
        "Call me Tomorrow",
        "CALL ME BACK PLEASE",
        "I went to the shop",
        "I started crying",
        "I wrote a function that sorts",
        "I got the role wrong again",
        "I booked a table for tonight",
        "I'm planning the sprint",
        "I'm looking into the login bug",
        "you're looking at the wrong file",
        "I'm gonna start a new branch",
        "our kids are our future",
        "this is my horse painting",
        "the usual it is",
        "she got promoted",
        "no beer, no fun",
        "no coffee since this morning",
        "Agreed, Tom!",
        "",
        "👍",
    ],
)
def test_what_is_asked_supposed_quoted_or_passing_is_not_learned(said: str) -> None:
    assert learned(said) == []


@pytest.mark.parametrize(
    "said",
    [
        "wenn ich in Porto wohnen würde",
        "wohne ich in Porto?",
        "ich habe Angst",
        "weil meine Mutter Kuchen mag",
        "ich bleib in Kontakt",
        "ich geh jetzt zum Sport",
        "ich hab die Rechnung bekommen",
        "Immer montags um sechs",
    ],
)
def test_nor_is_it_in_german(said: str) -> None:
    assert learned(said, language="german") == []


def test_what_a_bot_says_is_not_learned() -> None:
    assert learned("I live in Porto", role="assistant") == []


def test_a_named_member_of_the_chat_is_whom_a_fact_is_about() -> None:
    (fact,) = learned("Tom is allergic to shellfish")
    assert (fact.about, fact.subject, fact.content) == (
        "person",
        "Tom Miller",
        "Tom Miller is allergic to shellfish.",
    )


def test_somebody_introduced_as_a_relation_has_facts_of_their_own() -> None:
    relation, moved = sorted(
        learned("my sister Lena is fun", "Lena moved to Graz"), key=lambda f: f.message_ids
    )
    assert relation.content == "Lena is Ann's sister."
    assert (moved.about, moved.subject) == ("speaker", "Lena")
    assert moved.content == "Lena (Ann's sister) moved to Graz."


@pytest.mark.parametrize(
    ("said", "contents"),
    [
        ("Tom is busy. He moved to Graz", ["Tom Miller moved to Graz."]),
        ("Tom is shy, he turns forty on the 17th of april", ["Tom Miller has their birthday on 17 April."]),
        ("my mother is 70 years old. She lives in Leeds", ["Ann's mother lives in Leeds."]),
        # either may be meant, or somebody else
        ("Tom is busy. Bob is busy. He moved to Graz", []),
        ("He moved to Graz", []),
    ],
)
def test_he_and_she_are_whom_the_same_message_has_named(said: str, contents: list[str]) -> None:
    found = [fact.content for fact in learned(said)]
    assert [content for content in found if "years old" not in content] == contents


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (["Ann: so saturday the 18th of april?", "Bob: 18th works"], "Agreed: saturday the 18th of april"),
        (
            ["Ann: Mull instead of Slovenia, all agree?", "Bob: agree agree"],
            "Agreed: Mull instead of Slovenia",
        ),
        (["Ann: so saturday the 18th of april?", "Bob: no, I work"], ""),
        (["Ann: so saturday the 18th of april?", "Bob: ok no way"], ""),
        (["Ann: so saturday the 18th of april?", "Bob: yeah right"], ""),
        (["Ann: so saturday the 18th of april?", "Bob: yeah, I can't"], ""),
        (
            ["Ann: so saturday the 18th of april?", "Bob: ok, no problem"],
            "Agreed: saturday the 18th of april",
        ),
        (["Ann: so saturday the 18th of april?", "Ann: yes"], ""),
        (["Ann: are you free on the 18th of april?", "Bob: yes"], ""),
        (["Ann: pizza?", "Bob: yes"], ""),
    ],
)
def test_what_somebody_proposes_and_somebody_else_agrees_to_is_decided(said: list[str], content: str) -> None:
    found = RuleExtractor().extract(conversation(*said), people=GROUP, source=Source(language="english"))
    assert [fact.content[: len(content)] for fact in found] == ([content] if content else [])
    assert all(len(fact.message_ids) == 2 for fact in found)


@pytest.mark.parametrize(
    ("answer", "agrees"),
    [("ja passt", True), ("ja nein", False), ("passt mir nicht", False), ("ok, geht nicht", False)],
)
def test_a_yes_that_turns_into_a_no_agrees_to_nothing_in_german_either(answer: str, agrees: bool) -> None:
    said = conversation("Ann: also Samstag der 18. April?", f"Bob: {answer}")
    found = RuleExtractor().extract(said, people=GROUP, source=Source(language="german"))
    assert bool(found) == agrees


def test_nothing_is_learned_of_a_name_that_nobody_knows() -> None:
    assert learned("Lena moved to Graz") == []


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("Мария", "I live in Braga", "I live in Évora"),
        ("小雨", "I live in Porto", "I live in Porto"),
        ("نور", "ich wohne in Graz", "ich wohne in Linz"),
        ("Zoë 🦊", "remember that the code is 4711", "remember that the code is 4711"),
    ],
)
def test_two_people_of_one_name_have_what_each_of_them_says(name: str, one: str, other: str) -> None:
    said = [
        replace(each, id=n, sender_id=f"test:{n}")
        for n, each in enumerate(conversation(f"{name}: {one}", f"{name}: {other}"))
    ]
    facts = RuleExtractor().extract(said, people=People(kind="group", shared=frozenset({name})))
    assert sorted(fact.message_ids for fact in facts) == [(0,), (1,)]


def test_of_two_names_alike_neither_is_meant() -> None:
    people = People(kind="group", names={"Tom Miller": "1", "Tom Jones": "2"})
    assert learned("Tom is vegan", people=people) == []


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("never send me voice messages", "Ann told Pip: never send me voice messages."),
        ("please answer in German", "Ann wants Pip to answer in German."),
        ("keep it short please", "Ann wants Pip to be short."),
        ("you are called Rex from now on", "Ann calls Pip Rex."),
    ],
)
def test_what_the_agent_is_told_is_about_the_agent(said: str, content: str) -> None:
    (fact,) = learned(said, people=DIRECT)
    assert (fact.about, fact.subject, fact.content) == ("agent", "Pip", content)
    # in a group it must be addressed
    assert learned(said, people=GROUP) == []
    assert [each.content for each in learned(f"Pip, {said}", people=GROUP)] == [content]


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("We decided to meet at the Red Lion", "Decided: meet at the Red Lion."),
        (
            "ok decided: we take Beatriz, tomorrow 17:30",
            "Decided: we take Beatriz, tomorrow (3 March 2026) 17:30.",
        ),
        (
            "from now on we pay the rent by square metre",
            "Decided: from now on we pay the rent by square metre.",
        ),
    ],
)
def test_what_a_group_decides_is_about_all(said: str, content: str) -> None:
    (fact,) = learned(said)
    assert (fact.about, fact.subject, fact.category, fact.content) == (
        "organization",
        "",
        "decision",
        content,
    )


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (
            "Also beschlossen: Weihnachtsfeier am 11.12. beim Bowling, 19 Uhr",
            "Beschlossen: Weihnachtsfeier am 11.12. (11. Dezember 2026) beim Bowling, 19 Uhr.",
        ),
        (
            "Also beschlossen: Grillen am 3. Juli beim Bootshaus",
            "Beschlossen: Grillen am 3. Juli (3. Juli 2026) beim Bootshaus.",
        ),
    ],
)
def test_a_decision_in_german_keeps_its_date_and_what_comes_after_it(said: str, content: str) -> None:
    assert [fact.content for fact in learned(said, language="german")] == [content]


def test_a_day_of_meeting_is_an_attribute_that_can_change() -> None:
    (fact,) = learned("the meeting is on Mondays", "the meeting is now on Thursdays")
    assert (fact.attribute, fact.value) == ("meeting day", "thursdays")


def test_the_last_word_on_an_attribute_counts() -> None:
    (fact,) = learned("I love olives", "I hate olives")
    assert (fact.value, fact.message_ids) == ("no", (2,))


def test_things_of_a_list_are_facts_each_by_itself() -> None:
    found = learned("I'm allergic to nuts, eggs and fish")
    assert sorted(fact.attribute for fact in found) == ["allergic egg", "allergic fish", "allergic nut"]


def test_only_the_most_important_facts_are_learned() -> None:
    lines = ["I like olives", "I live in Porto", "I'm allergic to nuts", "I speak Dutch", "my name is Annie"]
    assert [fact.attribute for fact in learned(*lines, most=3)] == ["allergic nut", "name", "home"]


def test_a_change_holds_from_when_it_was_said_or_from_the_date_that_is_said() -> None:
    (now,) = learned("I moved to Porto")
    (dated,) = learned("I moved to Porto last month")
    assert now.holds_from == datetime(2026, 3, 2, 18, 1, tzinfo=UTC)
    assert dated.holds_from == datetime(2026, 2, 1, tzinfo=UTC)
    assert dated.content == "Ann moved to Porto in February 2026."


def test_an_absence_holds_until_its_day_ends_where_the_chat_is() -> None:
    zone = ZoneInfo("Europe/Berlin")
    (fact,) = RuleExtractor().extract(
        [message("I'm away until Friday")], people=GROUP, time_zone=zone, source=Source(language="english")
    )
    assert fact.content == "Ann is away until 6 March 2026."
    assert fact.holds_until == datetime(2026, 3, 6, 23, 59, 59, 999999, tzinfo=zone)


@pytest.mark.parametrize(
    ("language", "said", "last"),
    [
        ("english", "I live in Rome until Friday", (2026, 3, 6)),
        ("english", "I live in Rome until 10 March", (2026, 3, 10)),
        ("english", "I live in Rome until May", (2026, 5, 31)),
        ("english", "I live in Rome until December 2026", (2026, 12, 31)),
        ("english", "I've been working at Acme until 2027", (2027, 12, 31)),
        ("german", "ich wohne in Rom bis Mai", (2026, 5, 31)),
    ],
)
def test_what_ends_on_a_day_to_come_holds_until_its_last_moment(
    language: str, said: str, last: tuple[int, int, int]
) -> None:
    (fact,) = learned(said, language=language)
    assert fact.holds_until == datetime(*last, 23, 59, 59, 999999, tzinfo=UTC)


@pytest.mark.parametrize(
    ("language", "said"),
    [("english", "my birthday is on 29 February"), ("german", "mein Geburtstag ist am 29. Februar")],
)
def test_a_birthday_on_29_february_is_learned_in_every_year(language: str, said: str) -> None:
    (fact,) = learned(said, language=language)
    assert (fact.attribute, fact.value) == ("birthday", "02-29")
    assert learned(said.replace("29", "30"), language=language) == []


def test_what_began_on_a_day_of_the_past_has_held_since_then() -> None:
    (fact,) = learned("I've been working at Acme since Friday")
    assert (fact.holds_from, fact.holds_until) == (datetime(2026, 2, 27, tzinfo=UTC), None)


@pytest.mark.parametrize(
    ("language", "said", "first", "last"),
    [
        ("english", "I live in Rome from May until July", (2026, 5, 1), (2026, 7, 31)),
        ("english", "I work at Bosch from 1 May until 30 June", (2026, 5, 1), (2026, 6, 30)),
        ("english", "I live in Rome from December until February", (2026, 12, 1), (2027, 2, 28)),
        ("english", "I live in Rome from January until July", (2026, 1, 1), (2026, 7, 31)),
        ("german", "ich wohne in Rom von Mai bis Juli", (2026, 5, 1), (2026, 7, 31)),
    ],
)
def test_what_ends_on_a_day_to_come_began_less_than_a_year_before(
    language: str, said: str, first: tuple[int, int, int], last: tuple[int, int, int]
) -> None:
    (fact,) = learned(said, language=language)
    assert fact.holds_from == datetime(*first, tzinfo=UTC)
    assert fact.holds_until == datetime(*last, 23, 59, 59, 999999, tzinfo=UTC)


def test_where_the_language_is_unknown_both_are_read() -> None:
    found = learned("I live in Porto", "ich spreche Polnisch", language="simple")
    assert {fact.attribute for fact in found} == {"home", "speaks polnisch"}


def test_a_date_or_an_amount_of_all_is_an_attribute_that_can_change() -> None:
    (moved,) = learned("Sorted, moved the boat to Saturday 11 April")
    assert (moved.content, moved.attribute) == ("The boat is on 11 April 2026.", "boat date")
    (date,) = learned("the deadline is 12 May", "the deadline has been moved to 20 May")
    assert (date.content, date.attribute, date.value) == (
        "The deadline is on 20 May 2026.",
        "deadline date",
        "2026-05-20",
    )
    (rent,) = learned("our rent is now 450 euros")
    assert (rent.attribute, rent.value) == ("rent", "450 euros")


@pytest.mark.parametrize("language", LANGUAGES)
def test_rules_name_only_what_can_be_filled_in(language: str) -> None:
    known = {
        "subject",
        "speaker",
        "agent",
        "object",
        "a object",
        "place",
        "count",
        "matched",
        "date",
        "birthday",
    }
    for rule in BY_LANGUAGE[language].rules:
        assert rule.says or rule.says_of
        assert set(FIELD.findall(rule.content)) <= known, rule.content
        assert set(FIELD.findall(rule.attribute)) <= known | {"kind", "pair"}, rule.content
        assert set(FIELD.findall(rule.value)) <= known | {"digits", "exact"}, rule.content
        assert 0.5 <= rule.confidence <= 1
        assert 1 <= rule.importance <= 10


def test_it_is_a_fact_extractor() -> None:
    extractor: FactExtractor = RuleExtractor()
    assert extractor.model == RULES


PARTS = [each[0] for each in (*ENGLISH, *GERMAN)] + [
    "Tom is vegan",
    "ok",
    "?",
    "and",
    OPEN,
    "x" * 200,
    "remember that ",
]

# letters and years that only look right
PARTS += ["my ſister Lena", "my friend L" + "e" * 200, "I'm away until 9999-12-31", "my exam is on 3 Aprıl"]


@given(
    st.lists(
        st.tuples(
            st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=40)), max_size=5).map(" ".join),
            st.sampled_from(["user", "assistant", "system"]),
            st.sampled_from(["Ann", "Tom Miller", "x" * 90]),
        ),
        max_size=6,
    ),
    st.sampled_from(["english", "german", "simple"]),
)
def test_facts_are_short_and_said_by_people_and_the_same_each_time(
    lines: list[tuple[str, str, str]], language: str
) -> None:
    said = [message(text, who, role=role, id=n) for n, (text, role, who) in enumerate(lines, start=1)]
    people = {each.id for each in said if each.role == "user"}
    extractor, source = RuleExtractor(), Source(language=language)
    found = extractor.extract(said, people=GROUP, source=source)
    assert len(found) <= 3
    for fact in found:
        assert 0 < len(fact.content) <= MAX_FACT_CHARS
        assert set(fact.message_ids) <= people
        assert fact.message_ids
        assert 0 < fact.confidence <= 1
        assert 1 <= fact.importance <= 10
        assert bool(fact.attribute) == bool(fact.value)
    keys = [(fact.about, fact.subject, fact.attribute) for fact in found if fact.attribute]
    assert len(keys) == len(set(keys))
    # another session in between changes nothing
    extractor.extract(conversation("Bob: my sister Lena is vegan"), people=GROUP, source=source)
    assert extractor.extract(said, people=GROUP, source=source) == found


LOADED = """
from pipeline.enrich.stated_facts.rules import SAYS
from workers import resources
before = SAYS.made
resources.RuleExtractor()
print(before, SAYS.made)
"""


def test_rules_are_compiled_by_who_learns_before_a_session_is_claimed_and_by_no_other_program() -> None:
    command = [sys.executable, "-c", LOADED]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert told.stdout.split() == ["0", str(len(LANGUAGES))]
