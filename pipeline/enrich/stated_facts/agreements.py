"""Learn what is agreed: somebody proposes a day, or one thing instead of another, and somebody else says yes."""

from collections.abc import Iterator, Sequence
from datetime import date

from pipeline.enrich.stated_facts import dates
from pipeline.enrich.stated_facts.rules import BY_LANGUAGE, CLAUSES
from pipeline.enrich.stated_facts.wording import is_telling, said
from pipeline.text.fencing import harmless
from schemas.facts import MAX_FACT_CHARS, Fact
from schemas.sessions import Message

_ANSWERS = 3  # messages after a proposal that may answer it


def agreed(messages: Sequence[Message], index: int, day: date, language: str) -> Iterator[Fact]:
    """Yield what the message at `index` proposes, where one of the next ones by somebody else agrees."""
    proposed = list(_proposed(messages[index].content, day, language))
    if not proposed or (answer := _answer(messages, index, language)) is None:
        return
    for text in proposed:
        content = BY_LANGUAGE[language].kin["agreed"].format(object=text)
        if len(content) <= MAX_FACT_CHARS:
            yield Fact(
                content=harmless(content),
                category="decision",
                about="organization",
                subject="",
                attribute="",
                value="",
                confidence=0.7,
                importance=6,
                message_ids=(messages[index].id, answer.id),
            )


def _proposed(content: str, day: date, language: str) -> Iterator[str]:
    patterns = CLAUSES[language]
    for sentence in said(content, language):
        found = patterns["offers"].match(sentence) if "?" in sentence else None
        if found is None or patterns["another"].search(sentence):
            continue
        text = found["object"]
        named = dates.find(text, day, language)
        of_a_day = named is not None and named.unit == "day" and named.lead == "" and named.first > day
        if (of_a_day or patterns["instead"].search(text)) and is_telling(text, language):
            yield dates.with_day(text, day, language)


def _answer(messages: Sequence[Message], index: int, language: str) -> Message | None:
    """Return the message that agrees, unless somebody refuses before."""
    for message in messages[index + 1 : index + 1 + _ANSWERS]:
        if message.role != "user" or message.sender_id == messages[index].sender_id:
            continue
        content = message.content.lstrip()
        if CLAUSES[language]["refuses"].match(content):
            return None
        if CLAUSES[language]["agrees"].match(content):
            return message
    return None
