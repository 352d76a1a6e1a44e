"""Continue a summary, without a model, by the summary of later messages."""

import math
from collections.abc import Sequence

from pipeline.enrich.summaries.passages import MAX_CHARS, MAX_PASSAGE_CHARS
from pipeline.text.cues.dialogue_acts import Sentence
from pipeline.text.sentences import terms, words
from pipeline.text.truncate import shortened
from schemas.sessions import Summary

MAX_TOPICS = 8
MAX_ITEMS = 8  # of each list


def continued(previous: Summary, new: Summary, conversation: Sequence[Sentence], language: str) -> Summary:
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
        topics=_merged(new.topics[: MAX_TOPICS // 2], previous.topics, new.topics)[:MAX_TOPICS],
        decisions=previous.decisions,
        open_questions=_merged(waiting, new.open_questions)[-MAX_ITEMS:],
        action_items=_merged(previous.action_items, new.action_items)[-MAX_ITEMS:],
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
