"""Merge summaries without a model: one that goes on from another, and several as one."""

import math
from collections import Counter
from collections.abc import Sequence

from pipeline.enrich import extraction, passages
from pipeline.enrich.passages import MAX_CHARS, MAX_PASSAGE_CHARS, Passage
from pipeline.text.cues import FALLBACK
from pipeline.text.dialogue_acts import Sentence
from pipeline.text.keyphrases import weights_of
from pipeline.text.sentences import sentences, terms, words
from pipeline.text.truncate import shortened
from schemas.sessions import Summary

MAX_TOPICS = 8
MAX_ITEMS = 8  # of each list


def combine(parts: Sequence[Summary], language: str = FALLBACK) -> Summary:
    """Summarize at least one summary, in order of time, as one: the sentences that say most, and what recurs."""
    chars = extraction.chars_of_each([part.summary for part in parts])
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
        for one in sentences(part.summary[:chars])
    ]
    split = [
        Passage(
            speaker="",
            text=shortened(each.text, 2 * MAX_PASSAGE_CHARS),
            terms=frozenset(each.terms),
            factor=passages.person_factor(each),
        )
        for each in said
    ]
    chosen = passages.choose(split, weights_of(said, ()), MAX_CHARS)
    return Summary(
        summary=" ".join(passage.text for passage in chosen) or parts[0].summary,
        topics=_recurring([part.topics for part in parts])[:MAX_TOPICS],
        decisions=_merged(*(part.decisions for part in parts))[-MAX_ITEMS:],
        open_questions=_merged(*(part.open_questions for part in parts))[-MAX_ITEMS:],
        action_items=_merged(*(part.action_items for part in parts))[-MAX_ITEMS:],
        entities=_recurring([part.entities for part in parts])[:24],
    )


def continued(previous: Summary, new: Summary, said: Sequence[Sentence], language: str) -> Summary:
    """Continue a summary with that of what was `said` since: it gets half the room.

    Its lists go on, but for questions that were answered since.
    """
    raised = {term for sentence in said for term in sentence.terms}
    waiting = [
        q
        for q in previous.open_questions
        if not raised.intersection(terms(words(q.partition(": ")[2]), language))
    ]
    return Summary(
        summary=f"{_condensed(previous, new.topics, language)} {new.summary}",
        topics=_merged(new.topics[: MAX_TOPICS // 2], previous.topics, new.topics)[:MAX_TOPICS],
        decisions=previous.decisions,
        open_questions=_merged(waiting, new.open_questions)[-MAX_ITEMS:],
        action_items=_merged(previous.action_items, new.action_items)[-MAX_ITEMS:],
        entities=previous.entities,
    )


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
    room, kept = MAX_CHARS // 2, []
    for index in ranked:
        text = shortened(parts[index], 2 * MAX_PASSAGE_CHARS)
        if len(text) < room:
            kept.append((index, text))
            room -= len(text) + 1
    return " ".join(text for _, text in sorted(kept))


def _recurring(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the items of all lists, each once, those of most lists first."""
    count = Counter(item.lower() for items in lists for item in {each.lower() for each in items})
    return sorted(_merged(*lists), key=lambda item: -count[item.lower()])


def _merged(*lists: Sequence[str]) -> list[str]:
    """Concatenate, each item once, ignoring case."""
    return list({item.lower(): item for items in reversed(lists) for item in reversed(items)}.values())[::-1]
