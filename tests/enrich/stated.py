"""What the rules learn from what Ann says, for the tests of stated facts."""

from pipeline.enrich.protocols import People, Source
from pipeline.enrich.stated_facts.extractor import RuleExtractor
from schemas.facts import Fact
from tests.text.builders import message

DIRECT = People(kind="direct", names={"Ann": "telegram:Ann"}, agent="Pip")
GROUP = People(
    kind="group",
    names={"Ann": "telegram:Ann", "Tom Miller": "telegram:Tom", "Bob": "telegram:Bob"},
    agent="Pip",
)


def learned(
    *lines: str, language: str = "english", people: People = GROUP, most: int = 9, role: str = "user"
) -> list[Fact]:
    """What is learned from what Ann says, on 2 March 2026, a Monday."""
    said = [message(line, "Ann", minute=n, id=n, role=role) for n, line in enumerate(lines, start=1)]
    return RuleExtractor().extract(said, people=people, source=Source(language=language), most=most)
