"""Summarize without a model: the sentences that say most, and what was decided, asked and promised.

Only the date in front, calendar dates after words such as "yesterday", and marks of omission are added. The same
messages always give the same summary.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from itertools import islice

from pipeline.text import addressing, calendar, dialogue_acts
from pipeline.text.cues import FALLBACK, plain
from pipeline.text.dialogue_acts import Sentence
from pipeline.text.entities import entities
from pipeline.text.keyphrases import topics, weights_of
from pipeline.text.sentences import sentences, spoken, terms, words
from pipeline.text.truncate import shortened
from schemas.sessions import Message, Summary

_MAX_MESSAGES = 1000  # of a longer session the first and the last ones are read
_MAX_MESSAGE_CHARS = 2000
_MAX_SENTENCES = 6
_MAX_CHARS = 1100  # about what MiniLM reads in 256 word pieces; with 900 sessions are found less often
_MAX_SENTENCE_CHARS = 240  # also of a passage
_MAX_ITEM_CHARS = 300
_MAX_NAME_CHARS = 60
_MAX_TOPICS = 8
_PROPOSED_WITHIN = 3  # sentences before a yes
_MAX_ITEMS = 8
# Weights of passages, against one that merely tells something.
_DECISION, _PROMISE, _QUESTION, _OWN, _COMPLIMENT = 1.7, 1.25, 0.6, 1.2, 0.7
_REPEATED = 0.15  # weight of a word that a chosen passage has
# Dividing by (60 + length) ** 0.7 prefers neither the longest nor the shortest.
_FREE_CHARS, _LENGTH_POWER = 60, 0.7
_CLOSING = '.!?:;,\u2026\u3002\uff01\uff1f"\u201d]'
_PLACEHOLDERS = ("image omitted", "video omitted", "audio omitted", "sticker omitted")
_MAX_DECISIONS, _DECIDED_SHARE = 4, 0.6  # of the sentences, and of the room


def summarize(
    messages: Sequence[Message],
    previous: Summary | None = None,
    *,
    time_zone: tzinfo = UTC,
    language: str = FALLBACK,
) -> Summary:
    """Summarize messages of a language, in order of time, with dates in `time_zone`. Raises `ValueError` for none.

    `previous` summarizes what came before them in the same session: it gets half the room, and its lists are
    carried on, except questions that these messages answer.
    """
    if not messages:
        raise ValueError("there are no messages to summarize")
    read = _readable(messages, language)
    said = _sentences(read, time_zone, language)
    weights = weights_of(said, {part.lower() for m in read for part in words(m.speaker)})
    deciding = _decisions(said)
    # A request is a task even where it is put as a question.
    promising = [i for i, each in enumerate(said) if i not in deciding and dialogue_acts.promises(each)]
    settled = {*deciding, *promising}
    open_at = [i for i in range(len(said)) if i not in settled and dialogue_acts.stays_open(i, said)]
    factors = dict.fromkeys(promising, _PROMISE) | dict.fromkeys(deciding, _DECISION)
    text = _written(_chosen(_passages(said, factors), weights, _MAX_CHARS // (2 if previous else 1)))
    lead = _lead(messages, time_zone, language)
    new = Summary(
        summary=f"{lead}: {text}" if text else f"{lead}.",
        topics=topics(said, weights, limit=_MAX_TOPICS),
        decisions=_items(_reasoned(said, i) for i in deciding),
        open_questions=_items(said[i] for i in open_at),
        action_items=_items(said[i] for i in promising),
        entities=entities(
            [m.content[:_MAX_MESSAGE_CHARS] for m in read], language, known=[m.speaker for m in read]
        ),
    )
    return new if previous is None else _continued(previous, new, said, language)


def combine(parts: Sequence[Summary], language: str = FALLBACK) -> Summary:
    """Summarize at least one summary, in order of time, as one: the sentences that say most, and what recurs."""
    said = [
        Sentence(
            message=number,
            speaker="",
            text=one,
            words=tuple(words(one)),
            terms=terms(words(one), language),
            language=language,
        )
        for number, part in enumerate(parts)
        for one in sentences(part.summary)
    ]
    passages = [
        _Passage(
            speaker="",
            text=shortened(each.text, 2 * _MAX_SENTENCE_CHARS),
            terms=frozenset(each.terms),
            factor=_person_factor(each),
            decides=False,
        )
        for each in said
    ]
    chosen = _chosen(passages, weights_of(said, ()), _MAX_CHARS)
    return Summary(
        summary=" ".join(passage.text for passage in chosen) or parts[0].summary,
        topics=_recurring([part.topics for part in parts])[:_MAX_TOPICS],
        decisions=_merged(*(part.decisions for part in parts))[-_MAX_ITEMS:],
        open_questions=_merged(*(part.open_questions for part in parts))[-_MAX_ITEMS:],
        action_items=_merged(*(part.action_items for part in parts))[-_MAX_ITEMS:],
        entities=_recurring([part.entities for part in parts])[:24],
    )


def _recurring(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the items of all lists, each once, those of most lists first."""
    count = Counter(item.lower() for items in lists for item in {each.lower() for each in items})
    return sorted(_merged(*lists), key=lambda item: -count[item.lower()])


def _continued(previous: Summary, new: Summary, said: Sequence[Sentence], language: str) -> Summary:
    raised = {term for sentence in said for term in sentence.terms}
    waiting = [
        q
        for q in previous.open_questions
        if not raised.intersection(terms(words(q.partition(": ")[2]), language))
    ]
    return Summary(
        summary=f"{_condensed(previous, new.topics, language)} {new.summary}",
        topics=_merged(new.topics[: _MAX_TOPICS // 2], previous.topics, new.topics)[:_MAX_TOPICS],
        decisions=_merged(previous.decisions, new.decisions)[-_MAX_ITEMS:],
        open_questions=_merged(waiting, new.open_questions)[-_MAX_ITEMS:],
        action_items=_merged(previous.action_items, new.action_items)[-_MAX_ITEMS:],
        entities=_merged(new.entities[:12], previous.entities, new.entities)[:24],
    )


def _readable(messages: Sequence[Message], language: str) -> list[Message]:
    """Return what people and agents said without asides; everything, if that leaves nothing."""
    bots = addressing.names_of({message.speaker for message in messages if message.role == "assistant"})
    written = [replace(message, content=spoken(message.content)) for message in messages]
    said = [
        message
        for message in written
        if message.role in ("user", "assistant")
        and message.content.lower() not in ("", *_PLACEHOLDERS)
        and not addressing.is_put_to_a_bot(message.content, language, bots)
        and not addressing.says_nothing(message.content, language, of_a_bot=message.role == "assistant")
    ]
    read = said or written
    half = _MAX_MESSAGES // 2
    return read if len(read) <= _MAX_MESSAGES else [*read[:half], *read[-half:]]


def _sentences(messages: Sequence[Message], time_zone: tzinfo, language: str) -> list[Sentence]:
    position = {message.external_id: index for index, message in enumerate(messages)}
    said = []
    for index, message in enumerate(messages):
        day = message.sent_at.astimezone(time_zone).date()
        reply_to = message.reply_to or message.metadata.get("reply_to")
        for text in sentences(message.content[:_MAX_MESSAGE_CHARS]):
            written = tuple(words(text))
            said.append(
                Sentence(
                    message=index,
                    speaker=" ".join(message.speaker.split())[:_MAX_NAME_CHARS],
                    text=" ".join(calendar.absolute(text, day, language).split()),
                    words=written,
                    terms=terms(written, language),
                    language=language,
                    answers=position.get(str(reply_to)),
                )
            )
    return said


def _decisions(said: Sequence[Sentence]) -> list[int]:
    """Return the sentences that decide, and the proposals that another speaker only says yes to."""
    decided: set[int] = set()
    for index, sentence in enumerate(said):
        if dialogue_acts.decides(sentence):
            decided.add(index)
        elif dialogue_acts.agrees(sentence):
            before = range(index - 1, max(index - 1 - _PROPOSED_WITHIN, -1), -1)
            proposals = (
                i for i in before if said[i].speaker != sentence.speaker and dialogue_acts.proposes(said[i])
            )
            decided.update(islice(proposals, 1))
    return sorted(decided)


def _reasoned(said: Sequence[Sentence], index: int) -> Sentence:
    """Return the sentence with those after it in its message, which often hold a decision's terms."""
    text = said[index].text
    for sentence in said[index + 1 : index + 3]:
        if sentence.message != said[index].message or len(text) + len(sentence.text) > _MAX_SENTENCE_CHARS:
            break
        text = f"{text} {sentence.text}"
    return replace(said[index], text=text)


@dataclass(frozen=True, kw_only=True)
class _Passage:
    """Neighbouring sentences of one message, together no longer than a sentence may be."""

    speaker: str
    text: str
    terms: frozenset[str]
    # its weight besides its words
    factor: float
    decides: bool


def _passages(said: Sequence[Sentence], factors: Mapping[int, float]) -> list[_Passage]:
    """Split the conversation into passages, in order."""
    groups: list[list[int]] = []
    for index, sentence in enumerate(said):
        size = sum(len(said[i].text) + 1 for i in groups[-1]) if groups else 0
        same = bool(groups) and said[groups[-1][0]].message == sentence.message
        if same and size + len(sentence.text) <= _MAX_SENTENCE_CHARS:
            groups[-1].append(index)
        else:
            groups.append([index])
    return [
        _Passage(
            speaker=said[group[0]].speaker,
            text=shortened(" ".join(said[i].text for i in group), _MAX_SENTENCE_CHARS),
            terms=frozenset(term for i in group for term in said[i].terms),
            factor=max(factors.get(i, 1.0) * _person_factor(said[i]) for i in group),
            decides=any(factors.get(i) == _DECISION for i in group),
        )
        for group in groups
    ]


def _person_factor(sentence: Sentence) -> float:
    """Weigh a sentence by whether it is about its speaker, about whom they address, or a question."""
    if sentence.asks:
        return _QUESTION
    cues, found = sentence.cues, {plain(word) for word in sentence.words}
    if cues.first_person.are_in(found, sentence.plain):
        return _OWN
    return _COMPLIMENT if cues.second_person.are_in(found, sentence.plain) else 1.0


def _chosen(passages: Sequence[_Passage], weights: Mapping[str, float], room: int) -> list[_Passage]:
    """Choose up to six passages of at most `room` characters that together say most.

    First decisions, the newest first, as it may replace an earlier one; then, in order of time, those that add most for
    their length each time.
    """
    covered: set[str] = set()
    chosen: list[int] = []
    left = [index for index, passage in enumerate(passages) if passage.terms]

    def size(index: int) -> int:
        return len(passages[index].speaker) + 3 + len(passages[index].text)

    def take(index: int) -> None:
        nonlocal room
        left.remove(index)
        room -= size(index)
        chosen.append(index)
        covered.update(passages[index].terms)

    least = room * (1 - _DECIDED_SHARE)
    for index in [index for index in reversed(left) if passages[index].decides]:
        if len(chosen) < _MAX_DECISIONS and (room - size(index) >= least or not chosen):
            take(index)
    decided = len(chosen)
    # the other decisions are in the summary's list of them
    left = [index for index in left if not passages[index].decides]

    def gain(index: int) -> float:
        passage = passages[index]
        new = sum(weights.get(term, 0.0) * (_REPEATED if term in covered else 1.0) for term in passage.terms)
        return float(new * passage.factor / (_FREE_CHARS + len(passage.text)) ** _LENGTH_POWER)

    while left and len(chosen) < _MAX_SENTENCES:
        best = max(left, key=gain)
        if size(best) <= room or not chosen:
            take(best)
        else:
            left.remove(best)
    return [passages[index] for index in (*chosen[:decided], *sorted(chosen[decided:]))]


def _written(chosen: Sequence[_Passage]) -> str:
    """Write the passages after their speakers' names, a name once for what one speaker says in a row."""
    parts: list[str] = []
    for index, passage in enumerate(chosen):
        text = passage.text if passage.text[-1] in _CLOSING else passage.text + "."
        follows = index > 0 and chosen[index - 1].speaker == passage.speaker
        parts.append(text if follows else f"{passage.speaker}: {text}")
    return " ".join(parts)


def _lead(messages: Sequence[Message], time_zone: tzinfo, language: str) -> str:
    first, last = (messages[i].sent_at.astimezone(time_zone).date() for i in (0, -1))
    written = calendar.written(first, language)
    between = " to " if language == "english" else " – "
    return written if first == last else f"{written}{between}{calendar.written(last, language)}"


def _items(found: Iterable[Sentence]) -> list[str]:
    """Return sentences as items with their speaker; the last ones, if there are too many."""
    texts = (f"{sentence.speaker}: {sentence.text}" for sentence in found)
    return list(dict.fromkeys(shortened(text, _MAX_ITEM_CHARS) for text in texts))[-_MAX_ITEMS:]


def _condensed(previous: Summary, subjects: Sequence[str], language: str) -> str:
    """Condense the summary so far to half the room: its first sentence and its weightiest."""
    parts = sentences(previous.summary)
    wanted = {term for topic in (*previous.topics, *subjects) for term in terms(words(topic), language)}
    ranked = sorted(
        range(len(parts)),
        key=lambda i: (
            i > 0,
            -len(wanted.intersection(terms(words(parts[i]), language))) / math.sqrt(20 + len(parts[i])),
            i,
        ),
    )
    room, kept = _MAX_CHARS // 2, []
    for index in ranked:
        text = shortened(parts[index], 2 * _MAX_SENTENCE_CHARS)
        if len(text) < room:
            kept.append((index, text))
            room -= len(text) + 1
    return " ".join(text for _, text in sorted(kept))


def _merged(*lists: Sequence[str]) -> list[str]:
    """Concatenate, each item once, ignoring case."""
    return list({item.lower(): item for items in reversed(lists) for item in reversed(items)}.values())[::-1]
