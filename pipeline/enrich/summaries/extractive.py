"""Summarize without a model: quote the sentences that say most, and continue an earlier summary.

Only the day and the speaker are added. Of very long sessions only the beginning of each message is read, and the
summary says so. The same messages in the same chat always give the same summary.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from heapq import heapify, heappop, heapreplace

from pipeline.enrich.facts import fact_prompts
from pipeline.text import fencing
from pipeline.text.calendars import spans
from pipeline.text.cues import dialogue_acts, message_cues, plain
from pipeline.text.cues.dialogue_acts import Sentence
from pipeline.text.keyphrases import keyphrases
from pipeline.text.languages import FALLBACK
from pipeline.text.sentences import sentences, spoken, terms, words
from pipeline.text.truncate import shortened
from schemas.sessions import Message, Summary
from schemas.signs import border

MAX_TOPICS = 5
_MAX_ITEM_CHARS = 300
_MAX_NAME_CHARS = 60
_PLACEHOLDERS = ("image omitted", "video omitted", "audio omitted", "sticker omitted")


def summarize(
    messages: Sequence[Message],
    previous: Summary | None = None,
    *,
    earlier: Sequence[tuple[str, str]] = (),
    time_zone: tzinfo = UTC,
    language: str = FALLBACK,
) -> Summary:
    """Summarize messages in order of time, with days in `time_zone`. Raises `ValueError` for no messages.

    `previous` summarizes the session's earlier messages: it gets half the room, and its lists are continued, except for
    questions that these messages answer. `earlier` are speakers and texts of the chat before the session: words that
    occur there as well say little about it.
    """
    if not messages:
        raise ValueError("there are no messages to summarize")
    chars = fact_prompts.chars_of_each([message.content for message in messages])
    readable = _readable(messages, chars, language)
    talk = read_sentences(readable, language)
    phrases = keyphrases(
        [message.content for message in readable],
        [text for _, text in earlier],
        {speaker for speaker, _ in earlier}.union(message.speaker for message in readable),
        language,
        limit=MAX_TOPICS,
    )
    # A request is a task even if it is phrased as a question.
    factors = {i: PROMISE for i, sentence in enumerate(talk) if dialogue_acts.promises(sentence)}
    open_at = [i for i in range(len(talk)) if i not in factors and dialogue_acts.stays_open(i, talk)]
    room = MAX_CHARS // (2 if previous else 1)
    chosen = choose_passages(split_passages(talk, factors), phrases.weights, room)
    day = _day(messages, time_zone, language)
    if chars < fact_prompts.MAX_MESSAGE_CHARS:
        day += f" (the first {chars} characters of each message)"
    new = Summary(
        summary="\n".join([day, *(f"{passage.speaker}: {passage.text}" for passage in chosen)]),
        topics=phrases.topics,
        open_questions=_items(talk[i] for i in open_at),
        action_items=_items(talk[i] for i in factors),
    )
    return new if previous is None else continued_summary(previous, new, talk, language)


def _readable(messages: Sequence[Message], chars: int, language: str) -> list[Message]:
    """Return the messages of people and agents without asides; all messages, if that leaves none."""
    bots = message_cues.names_of({message.speaker for message in messages if message.role == "assistant"})
    written = [m._replace(content=spoken(m.content[: border(m.content, chars)])) for m in messages]
    readable = [
        message
        for message in written
        if message.role in ("user", "assistant")
        and message.content.lower() not in ("", *_PLACEHOLDERS)
        and not message_cues.is_put_to_a_bot(message.content, language, bots)
        and not message_cues.says_nothing(message.content, language, of_a_bot=message.role == "assistant")
    ]
    return readable or written


def read_sentences(messages: Sequence[Message], language: str) -> list[Sentence]:
    """Return the sentences of messages, each with the position of its message."""
    position = {message.external_id: index for index, message in enumerate(messages)}
    talk = []
    for index, message in enumerate(messages):
        reply_to = message.reply_to or message.metadata.get("reply_to")
        for text in sentences(message.content):
            written = tuple(words(text))
            talk.append(
                Sentence(
                    message=index,
                    speaker=shortened(fencing.name(message.speaker), _MAX_NAME_CHARS),
                    text=" ".join(text.split()),
                    words=written,
                    terms=terms(written, language),
                    language=language,
                    answers=position.get(str(reply_to)),
                )
            )
    return talk


def _day(messages: Sequence[Message], time_zone: tzinfo, language: str) -> str:
    first, last = (messages[i].sent_at.astimezone(time_zone).date() for i in (0, -1))
    written = spans.written_day(first, language)
    between = " to " if language == "english" else " – "
    return written if first == last else f"{written}{between}{spans.written_day(last, language)}"


def _items(listed: Iterable[Sentence]) -> list[str]:
    """Return sentences as items with their speaker; only the last ones, if there are too many."""
    texts = (f"{sentence.speaker}: {sentence.text}" for sentence in listed)
    return list(dict.fromkeys(shortened(text, _MAX_ITEM_CHARS) for text in texts))[-MAX_CONTINUED_ITEMS:]


MAX_CHARS = 1100  # of all chosen passages: about what MiniLM reads; with 900, sessions are found less often
MAX_PASSAGE_CHARS = 240
_MAX_CHOSEN = 6
_FEWEST_TERMS = 2  # with fewer, a passage such as "walking." says nothing without the one before it
# Weights relative to a plain statement.
PROMISE = 1.25
_QUESTION, _OWN, _COMPLIMENT = 0.6, 1.2, 0.7
_REPEATED = 0.15  # weight of a word that a chosen passage has already
# Dividing by (60 + length) ** 0.7 prefers neither the longest nor the shortest.
_FREE_CHARS, _LENGTH_POWER = 60, 0.7


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """Neighbouring sentences of one message, together no longer than a sentence may be."""

    speaker: str
    text: str
    terms: frozenset[str]
    # its weight besides that of its words
    factor: float


def split_passages(conversation: Sequence[Sentence], factors: Mapping[int, float]) -> list[Excerpt]:
    """Split the conversation into passages, in order."""
    groups: list[list[int]] = []
    for index, sentence in enumerate(conversation):
        size = sum(len(conversation[i].text) + 1 for i in groups[-1]) if groups else 0
        same = bool(groups) and conversation[groups[-1][0]].message == sentence.message
        if same and size + len(sentence.text) <= MAX_PASSAGE_CHARS:
            groups[-1].append(index)
        else:
            groups.append([index])
    return [
        Excerpt(
            speaker=conversation[group[0]].speaker,
            text=shortened(" ".join(conversation[i].text for i in group), MAX_PASSAGE_CHARS),
            terms=frozenset(term for i in group for term in conversation[i].terms),
            factor=max(factors.get(i, 1.0) * person_factor(conversation[i]) for i in group),
        )
        for group in groups
    ]


def choose_passages(passages: Sequence[Excerpt], weights: Mapping[str, float], room: int) -> list[Excerpt]:
    """Choose up to six passages of at most `room` characters that together say most, in order of time.

    Greedily take the passage that adds most for its length; passages of a single term only if there are no others.
    """
    covered: set[str] = set()
    chosen: list[int] = []

    def size(index: int) -> int:
        return len(passages[index].speaker) + 3 + len(passages[index].text)

    def gain(index: int) -> float:
        passage = passages[index]
        new = sum(weights.get(term, 0.0) * (_REPEATED if term in covered else 1.0) for term in passage.terms)
        return float(new * passage.factor / (_FREE_CHARS + len(passage.text)) ** _LENGTH_POWER)

    fewest = min(_FEWEST_TERMS, max((len(passage.terms) for passage in passages), default=0)) or 1
    ranked = [(-gain(i), i) for i, passage in enumerate(passages) if len(passage.terms) >= fewest]
    heapify(ranked)
    # Choosing only lowers gains, so the first passage whose gain is unchanged since it was computed is the best.
    while ranked and len(chosen) < _MAX_CHOSEN:
        index = ranked[0][1]
        now = (-gain(index), index)
        if now != ranked[0]:
            heapreplace(ranked, now)
            continue
        heappop(ranked)
        if size(index) <= room or not chosen:
            room -= size(index)
            chosen.append(index)
            covered.update(passages[index].terms)
    return [passages[index] for index in sorted(chosen)]


def person_factor(sentence: Sentence) -> float:
    """Weigh a sentence by whether it is about its speaker, about the person addressed, or a question."""
    if sentence.asks:
        return _QUESTION
    cues, low_words = sentence.cues, {plain(word) for word in sentence.words}
    own = (cues.first_person, cues.first_person_plural)
    if any(pronouns.are_in(low_words, sentence.plain) for pronouns in own):
        return _OWN
    return _COMPLIMENT if cues.second_person.are_in(low_words, sentence.plain) else 1.0


MAX_CONTINUED_TOPICS = 8
MAX_CONTINUED_ITEMS = 8  # of each list


def continued_summary(
    previous: Summary, new: Summary, conversation: Sequence[Sentence], language: str
) -> Summary:
    """Continue a summary by that of the later `conversation`: the former gets half the room.

    Its lists are continued, except for questions that were answered since.
    """
    raised = {term for sentence in conversation for term in sentence.terms}
    waiting = [
        q
        for q in previous.open_questions
        if not raised.intersection(terms(words(q.partition(": ")[2]), language))
    ]
    return Summary(
        summary=f"{_condensed(previous, new.topics, language)}\n{new.summary}",
        topics=_merged(new.topics[: MAX_CONTINUED_TOPICS // 2], previous.topics, new.topics)[
            :MAX_CONTINUED_TOPICS
        ],
        decisions=previous.decisions,
        open_questions=_merged(waiting, new.open_questions)[-MAX_CONTINUED_ITEMS:],
        action_items=_merged(previous.action_items, new.action_items)[-MAX_CONTINUED_ITEMS:],
        entities=previous.entities,
    )


def _condensed(previous: Summary, subjects: Sequence[str], language: str) -> str:
    """Condense the summary so far to half the room: its first line and the weightiest others."""
    lines = previous.summary.splitlines()
    topic_terms = {term for topic in (*previous.topics, *subjects) for term in terms(words(topic), language)}

    def weight(line: str) -> float:
        return len(topic_terms.intersection(terms(words(line), language))) / math.sqrt(20 + len(line))

    room, chosen = MAX_CHARS // 2, []
    for index in sorted(range(len(lines)), key=lambda index: (index > 0, -weight(lines[index]), index)):
        text = shortened(lines[index], 2 * MAX_PASSAGE_CHARS)
        if len(text) < room:
            chosen.append((index, text))
            room -= len(text) + 1
    return "\n".join(text for _, text in sorted(chosen))


def _merged(*lists: Sequence[str]) -> list[str]:
    """Concatenate lists, keeping each item once, ignoring case."""
    return list({item.lower(): item for items in reversed(lists) for item in reversed(items)}.values())[::-1]
