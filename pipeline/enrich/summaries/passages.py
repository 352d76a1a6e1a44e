"""Split a conversation into passages, and choose those that together say most in little room."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from pipeline.text.cues import plain
from pipeline.text.cues.dialogue_acts import Sentence
from pipeline.text.truncate import shortened

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
class Passage:
    """Neighbouring sentences of one message, together no longer than a sentence may be."""

    speaker: str
    text: str
    terms: frozenset[str]
    # its weight besides that of its words
    factor: float


def split(conversation: Sequence[Sentence], factors: Mapping[int, float]) -> list[Passage]:
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
        Passage(
            speaker=conversation[group[0]].speaker,
            text=shortened(" ".join(conversation[i].text for i in group), MAX_PASSAGE_CHARS),
            terms=frozenset(term for i in group for term in conversation[i].terms),
            factor=max(factors.get(i, 1.0) * person_factor(conversation[i]) for i in group),
        )
        for group in groups
    ]


def choose(passages: Sequence[Passage], weights: Mapping[str, float], room: int) -> list[Passage]:
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
