"""Find the words that tell what a conversation is about, without a corpus to compare it with."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pipeline.text.cues import stop_words
from pipeline.text.dialogue_acts import Sentence
from pipeline.text.sentences import is_content, stem

_MAX_CHARS = 100  # of one topic


def weights_of(said: Sequence[Sentence], names: Iterable[str]) -> dict[str, float]:
    """Weigh each term by the messages in which it recurs, and by its form; speakers' names have no weight.

    Form stands in for rarity in a corpus: longer words, numbers and names are rarer.
    """
    seen: dict[str, set[int]] = {}
    capitals: Counter[str] = Counter()
    for sentence in said:
        for index, word in enumerate(sentence.words):
            if is_content(word, sentence.language):
                capitals[stem(word)] += index > 0 and word[0].isupper()
        for term in sentence.terms:
            seen.setdefault(term, set()).add(sentence.message)
    silent = {stem(name) for name in names}
    return {
        term: (1 + math.log(len(messages))) * _specificity(term, capitals[term] > 0)
        for term, messages in seen.items()
        if term not in silent
    }


def _specificity(term: str, capital: bool) -> float:
    if capital or any(character.isdigit() for character in term):
        return 1.5
    if term.endswith(("ly", "ing", "ed")):
        return 0.7
    return 1.2 if len(term) >= 7 else 0.7 if len(term) <= 3 and term.isascii() else 1.0


def topics(said: Sequence[Sentence], weights: Mapping[str, float], *, limit: int) -> list[str]:
    """Return the heaviest terms as they are mostly written; as pairs where two words recur together."""
    forms: dict[str, Counter[str]] = {}
    pairs: Counter[tuple[str, str]] = Counter()
    count: Counter[str] = Counter()
    nouns: Counter[str] = Counter()
    for sentence in said:
        before, language = "", sentence.language
        determiners = stop_words(language).determiners
        for word in sentence.words:
            term = stem(word)
            if term in weights and is_content(word, language) and not word[0].isdigit():
                forms.setdefault(term, Counter())[word.removesuffix("'s")] += 1
                count[term] += 1
                nouns[term] += before.lower() in determiners
                if before and stem(before) in weights and is_content(before, language):
                    pairs[stem(before), term] += 1
            before = word
    score = {
        term: weights[term] * (1 + 0.5 * min(nouns[term], 2)) * (1 if count[term] > 1 else 0.6)
        for term in forms
    }
    best: dict[str, tuple[str, str]] = {}
    for two, times in sorted(pairs.items(), key=lambda item: (item[1], item[0])):
        if times > 1 and two[0] in forms and two[1] in forms:
            best |= dict.fromkeys(two, two)
    found: list[str] = []
    used: set[str] = set()
    for term in sorted(score, key=lambda t: (-score[t], t)):
        if term in used or len(found) == limit:
            continue
        pair: tuple[str, ...] = best.get(term, (term,))
        if used.isdisjoint(pair):
            found.append(" ".join(_usual(forms[part]) for part in pair)[:_MAX_CHARS])
        used.update(pair)
    return found


def _usual(forms: Counter[str]) -> str:
    return max(forms, key=lambda form: (forms[form], form.islower(), form))
