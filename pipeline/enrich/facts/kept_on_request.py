"""Keep what people tell a bot to keep: "remember that …", "call me …", and what they take back of it.

Nothing else is learned without a language model. What is kept are their own words, in any language that has cues.
"""

import re
from collections.abc import Iterator, Sequence
from unicodedata import normalize

from pipeline.enrich.facts.extraction import MAX_MESSAGE_CHARS
from pipeline.enrich.protocols import People
from pipeline.text import caches, fencing
from pipeline.text.cues import plain, requests, stop_words
from pipeline.text.cues.dialogue_acts import is_question
from pipeline.text.cues.requests import Request
from pipeline.text.languages import ANY_LANGUAGE
from pipeline.text.sentences import sentences, terms, words
from pipeline.text.truncate import one_line, shortened
from schemas.memory.facts import DENIAL, MAX_FACT_CHARS, RULES, Fact, denies_another
from schemas.messages import FORWARDED
from schemas.sessions import Message

MAX_NAME_CHARS, MAX_NAME_WORDS, MAX_ATTRIBUTE_CHARS = 40, 3, 100
CORRECTABLE_MESSAGES = 4
"""Messages after a request in which "that's wrong" means what was to be kept."""

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_QUOTED = re.compile(r'["“„«»「『][^"“”«»」』\n]*(?:["”“«»」』]|$)|`[^`]*(?:`|\Z)|^>.*$', re.MULTILINE)
# What follows may be somebody else's words: `Lena wrote: …`
_SPEAKER = re.compile(r":(?:\s|\Z)|：")
_ENDS = " .,;:!。，！"


class RequestExtractor:
    """Facts that people ask to be kept; of a group's messages only those to its bot are read."""

    model = RULES

    def extract(
        self, messages: Sequence[Message], *, people: People, most: int = 3, **_: object
    ) -> list[Fact]:
        """Return up to `most` facts of messages in order of time, the latest first; last what is to be forgotten."""
        bot = _name_of(people)
        of_bots = {message.external_id for message in messages if message.role == "assistant"}
        facts: dict[tuple[str, str], Fact] = {}
        # by speaker: where they asked for something to be kept, and what
        last: dict[str, tuple[int, tuple[str, str]]] = {}
        for index, message in enumerate(messages):
            if message.role != "user" or FORWARDED in message.metadata:
                continue
            addressed = people.kind == "direct" or message.reply_to in of_bots
            for sentence, compared in _own_sentences(message.content, bot, addressed=addressed):
                for fact in _facts(sentence, compared, message, in_group=people.kind != "direct"):
                    if fact is None:
                        before, key = last.pop(message.sender_id, (index, ("", "")))
                        if index - before <= CORRECTABLE_MESSAGES:
                            facts.pop(key, None)
                        continue
                    key = "" if fact.about == "organization" else message.sender_id, fact.attribute
                    if key in facts and denies_another(fact.value, facts[key].value):
                        key = key[0], fact.value
                    facts.pop(key, None)
                    facts[key] = fact
                    last[message.sender_id] = index, key
        newest = reversed(facts.values())
        return sorted(newest, key=lambda fact: -fact.importance)[:most]


def _name_of(people: People) -> re.Pattern[str]:
    """Return a pattern of what a bot is called."""
    name = f"|{re.escape(plain(people.agent))}" if people.agent else ""
    return caches.pattern(rf"(?<!\w)@?(?:\w{{0,40}}bot{name})(?!\w)")


def _own_sentences(content: str, bot: re.Pattern[str], *, addressed: bool) -> Iterator[tuple[str, str]]:
    """Yield the sentences to the bot that are the sender's own and ask nothing, each also without the bot's name."""
    text = normalize("NFC", fencing.without_recalled(fencing.visible(content[:MAX_MESSAGE_CHARS])))
    if not addressed and bot.search(plain(text)) is None:
        return
    for paragraph in _PARAGRAPH.split(text):
        unquoted = _QUOTED.sub(lambda quotation: "\0" * len(quotation[0]), paragraph)
        end = 0
        for sentence in sentences(paragraph):
            start = paragraph.index(sentence, end)
            end = start + len(sentence)
            if unquoted[start] == "\0" or is_question(sentence):
                continue
            compared = bot.sub(lambda called: " " * len(called[0]), plain(sentence))
            yield sentence, compared
            if _SPEAKER.search(unquoted, start, end) and next(requests.candidates(compared), None) is None:
                break


def _facts(sentence: str, compared: str, message: Message, *, in_group: bool) -> Iterator[Fact | None]:
    """Yield what a sentence tells the bot to keep or to forget; None: the last thing is wrong."""
    for request in requests.candidates(compared):
        if request.kind == "wrong":
            yield None
            rest = request.match.end("cue")
            yield from _facts(sentence[rest:], compared[rest:], message, in_group=in_group)
            return
        if fact := _fact(request, sentence, message, in_group=in_group):
            yield fact
            return


def _fact(request: Request, sentence: str, message: Message, *, in_group: bool) -> Fact | None:
    """Return what a request wants kept or forgotten; None: it names nothing."""
    match, forgets, is_name = request.match, request.kind == "forget", request.kind == "call_me"
    body = sentence[slice(*match.span("what"))].rstrip(_ENDS) if match["what"] else ""
    stems = terms(words(body), ANY_LANGUAGE)
    # "forget that rule" is about no statement
    if not _is_name(body) if is_name else len(stems) < 1 + forgets:
        return None
    # of two that differ in small words and numbers only, such as days and codes, the later one holds
    about = " ".join(sorted({term for term in stems if not term[0].isdigit()} or stems))
    exact = " ".join(words(plain(body)))
    clause = body if request.kind == "remember" else sentence[match.start("cue") : match.end()].rstrip(_ENDS)
    speaker = shortened(fencing.name(message.speaker), MAX_NAME_CHARS)
    of_group = in_group and not is_name and request.us.are_in(plain(body).split(), plain(body))
    return Fact(
        content=one_line(shortened(f"{speaker}: {clause}", MAX_FACT_CHARS)),
        category="preference" if is_name else "fact",
        about="organization" if of_group else "speaker",
        subject="" if of_group else message.speaker,
        attribute="name" if is_name else f"kept {about[:MAX_ATTRIBUTE_CHARS]}",
        value=f"{DENIAL}{exact}" if forgets else exact,
        confidence=0.9,
        importance=1 if forgets else 8,
        message_ids=(message.id,),
    )


def _is_name(text: str) -> bool:
    """Tell whether a text may be what somebody is called: a few words, none of them small or common."""
    written = text.split()
    return (
        0 < len(written) <= MAX_NAME_WORDS
        and len(text) <= MAX_NAME_CHARS
        and not any(word[0].islower() or plain(word) in stop_words(ANY_LANGUAGE).words for word in written)
    )
