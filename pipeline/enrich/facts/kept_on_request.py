"""Extract what people tell a bot to remember ("remember that …", "call me …") or to forget again.

Nothing else is learned without a language model. Facts are people's own words, in any language that has cues.
"""

import re
from collections.abc import Iterator, Sequence
from unicodedata import normalize

from pipeline.enrich.facts.fact_prompts import MAX_MESSAGE_CHARS
from pipeline.enrich.protocols import People
from pipeline.text import caches, fencing
from pipeline.text.cues import dialogue_acts, plain, stop_words
from pipeline.text.cues.dialogue_acts import BotRequest, is_question
from pipeline.text.languages import ANY_LANGUAGE
from pipeline.text.sentences import sentences, terms, words
from pipeline.text.truncate import one_line, shortened
from schemas.facts import DENIAL, MAX_FACT_CHARS, RULES, Fact, denies_another
from schemas.messages import FORWARDED
from schemas.sessions import Message

MAX_NAME_CHARS, MAX_NAME_WORDS, MAX_ATTRIBUTE_CHARS = 40, 3, 100
CORRECTABLE_MESSAGES = 4
"""Messages after a request in which "that's wrong" refers to it."""

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_QUOTED = re.compile(r'["“„«»「『][^"“”«»」』\n]*(?:["”“«»」』]|$)|`[^`]*(?:`|\Z)|^>.*$', re.MULTILINE)
# The words after it may be somebody else's: `Lena wrote: …`
_SPEAKER = re.compile(r":(?:\s|\Z)|：")
_ENDS = " .,;:!。，！"


class RequestExtractor:
    """Extracts facts that people ask to be kept; in a group, only from messages to its bot."""

    model = RULES

    def extract(
        self, messages: Sequence[Message], *, people: People, max_facts: int = 3, **_: object
    ) -> list[Fact]:
        """Return up to `max_facts` facts of messages in order of time, the latest first, then requests to forget."""
        bot = _name_of(people)
        of_bots = {message.external_id for message in messages if message.role == "assistant"}
        facts: dict[tuple[str, str], Fact] = {}
        # each speaker's last request: the index of its message, and the fact's key
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
        return sorted(newest, key=lambda fact: -fact.importance)[:max_facts]


def _name_of(people: People) -> re.Pattern[str]:
    """Return a pattern of the names of a bot."""
    name = f"|{re.escape(plain(people.agent))}" if people.agent else ""
    return caches.pattern(rf"(?<!\w)@?(?:\w{{0,40}}bot{name})(?!\w)")


def _own_sentences(content: str, bot: re.Pattern[str], *, addressed: bool) -> Iterator[tuple[str, str]]:
    """Yield `(sentence, its comparable form without the bot's name)` of the sender's own statements to the bot."""
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
            if (
                _SPEAKER.search(unquoted, start, end)
                and next(dialogue_acts.request_candidates(compared), None) is None
            ):
                break


def _facts(sentence: str, compared: str, message: Message, *, in_group: bool) -> Iterator[Fact | None]:
    """Yield the facts that a sentence tells the bot to keep or forget; None: the last one is wrong."""
    for request in dialogue_acts.request_candidates(compared):
        if request.kind == "wrong":
            yield None
            rest = request.match.end("cue")
            yield from _facts(sentence[rest:], compared[rest:], message, in_group=in_group)
            return
        if fact := _fact(request, sentence, message, in_group=in_group):
            yield fact
            return


def _fact(request: BotRequest, sentence: str, message: Message, *, in_group: bool) -> Fact | None:
    """Return the fact that a request wants kept or forgotten; None: it names none."""
    match, forgets, is_name = request.match, request.kind == "forget", request.kind == "call_me"
    body = sentence[slice(*match.span("what"))].rstrip(_ENDS) if match["what"] else ""
    stems = terms(words(body), ANY_LANGUAGE)
    # "forget that rule" names no statement
    if not _is_name(body) if is_name else len(stems) < 1 + forgets:
        return None
    # of two facts that differ only in small words and numbers, such as days and codes, the later one holds
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
    """Tell whether a text may be somebody's name: a few words, none in lower case or common."""
    written = text.split()
    return (
        0 < len(written) <= MAX_NAME_WORDS
        and len(text) <= MAX_NAME_CHARS
        and not any(word[0].islower() or plain(word) in stop_words(ANY_LANGUAGE).words for word in written)
    )
