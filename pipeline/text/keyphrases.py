"""Find the words and phrases that set a conversation apart from the rest of its chat."""

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain

from pipeline.text.accents import AROUND, one_spelling
from pipeline.text.calendars import month_names
from pipeline.text.cues import cues_of, plain, stop_words
from pipeline.text.sentences import UNSPACED, is_content, pair, stem, words
from schemas.signs import border

_MAX_CHARS = 100  # of one topic
# Words of a phrase; of Han and kana, pairs of characters that overlap: up to four characters.
_MAX_WORDS = 3
# Of an alphabet without spaces, such as Thai, pairs of letters: up to ten letters.
_MAX_PAIRS, _IDEOGRAPHS = 9, "\u3000"
# A phrase of less weight does not set its conversation apart.
_MIN_WEIGHT = 1.0
_MAX_NOUN = 2.0  # maximum factor for being used as a noun more often than others
# Not prose: fenced code, links, paths, addresses, mentions, names of files and of variables.
_NO_PROSE = re.compile(r"```.*?(?:```|\Z)|(?<![!-~])[!-~]*(?:[/\\_@]|[A-Za-z]\.[A-Za-z])[!-~]*", re.DOTALL)
_BREAK = re.compile(rf"[^\w\s{AROUND}'\u2019\u05f3\u05f4-]+|\n+")

Terms = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Keyphrases:
    """The terms and phrases that set a conversation apart."""

    # the weight of each of its terms, numbers too
    weights: Mapping[str, float]
    # phrases that tell a reader what it is about, the heaviest first; no two share a word
    topics: Sequence[str]


@dataclass(kw_only=True)
class _Phrase:
    # the last message so far
    last: int = -1
    # messages of the conversation and earlier messages that contain it; occurrences in all
    inside: int = 0
    outside: int = 0
    times: int = 0
    # occurrences as a noun
    nouns: int = 0
    # up to two neighbours on either side: with only one, the phrase is part of a longer one
    before: set[Hashable] = field(default_factory=set)
    after: set[Hashable] = field(default_factory=set)
    # the words as they are written, and how often
    written: Counter[tuple[str, ...]] = field(default_factory=Counter)

    @cached_property
    def form(self) -> str:
        """Return the phrase as it is mostly written; in capitals only if it is never written otherwise."""
        all_forms = Counter[str]()
        for phrase, times in self.written.items():
            all_forms[_written(phrase)] += times
        forms = {form: times for form, times in all_forms.items() if not form.isupper()} or all_forms
        return max(forms, key=lambda form: (forms[form], form.islower(), form))


def keyphrases(
    texts: Sequence[str], earlier: Sequence[str], speakers: Iterable[str], language: str, *, limit: int
) -> Keyphrases:
    """Find what sets the messages of a conversation apart from `earlier` ones of its chat, with at most `limit` topics.

    A phrase weighs the more, the more messages of the conversation and the fewer earlier ones have it (as in tf-idf),
    the more often it is said as a noun, and the longer it is; of equal ones the first is better. Speakers' names weigh
    nothing.
    """
    clauses = [_clauses(text) for text in texts]
    silent = {stem(part) for name in speakers for part in words(name)}
    content = {stem(word) for word in set(chain(*chain(*clauses))) if is_content(word, language)} - silent
    phrases = _phrases(clauses, [_clauses(text) for text in earlier], content, language)
    # the share of nouns among all words: 0 in a language without articles and capitals
    usual = sum(p.nouns for p in phrases.values()) / max(sum(p.times for p in phrases.values()), 1)

    def weight(phrase: _Phrase) -> float:
        noun = min((phrase.nouns + 1) / (phrase.times * usual + 1), _MAX_NOUN)
        # the commonest words are short
        length = 1.0 if UNSPACED.fullmatch(phrase.form) else min(0.6 + 0.08 * len(phrase.form), 1.2)
        rarity = 1 - math.log(phrase.outside + 1) / math.log(len(earlier) + 2)
        return (1 + math.log(phrase.inside)) * rarity * noun * length

    # several words must occur together twice to be a phrase
    weights = {terms: weight(p) for terms, p in phrases.items() if p.times > 1 or not terms[1:]}
    topics: list[str] = []
    used: set[str] = set()
    # a phrase in a single message comes last, however rare it is
    heavy = [terms for terms, value in weights.items() if value >= _MIN_WEIGHT]
    for terms in sorted(heavy, key=lambda terms: (phrases[terms].inside == 1, -weights[terms])):
        if len(topics) == limit:
            break
        phrase = phrases[terms]
        if used.isdisjoint(terms) and _is_whole(terms, phrase) and _names(phrase.form, language):
            topics.append(phrase.form[: border(phrase.form, _MAX_CHARS)])
            used.update(terms)
    return Keyphrases(
        weights={terms[0]: value for terms, value in weights.items() if not terms[1:]}, topics=topics
    )


def _phrases(
    texts: Sequence[list[list[str]]], earlier: Sequence[list[list[str]]], content: set[str], language: str
) -> dict[Terms, _Phrase]:
    """Find the phrases of these terms in the messages of a conversation, and in earlier ones."""
    stop, numbers = stop_words(language), cues_of(language).number.whole
    phrases: dict[Terms, _Phrase] = {}
    # each word is read once: most are said many times
    term_of, low_of = cache(stem), cache(plain)
    for message, clauses in enumerate(chain(texts, earlier)):
        is_inside = message < len(texts)
        for clause in clauses:
            terms = [term if (term := term_of(word)) in content else "" for word in clause]
            if not any(terms):
                continue
            low = list(map(low_of, clause))
            for start, end in _runs(terms):
                gram = tuple(terms[start:end])
                if not is_inside and gram not in phrases:
                    continue
                phrase = phrases.setdefault(gram, _Phrase())
                if phrase.last != message:
                    phrase.last = message
                    phrase.inside += is_inside
                    phrase.outside += not is_inside
                phrase.times += 1
                word, is_first, is_last = clause[start], start == 0, end == len(clause)
                is_name = not is_first and word[0].isupper() and not word.isupper()
                is_led = not is_first and low[start - 1] in stop.determiners
                # "the old one" is no noun
                goes_on = not is_last and (low[end] not in stop.words or low[end] in numbers)
                phrase.nouns += word[0].isdigit() or is_name or (is_led and not goes_on)
                # a word without meaning is another neighbour each time
                if len(phrase.before) < 2:
                    phrase.before.add((not is_first and terms[start - 1]) or phrase.times)
                if len(phrase.after) < 2:
                    phrase.after.add((not is_last and terms[end]) or phrase.times)
                phrase.written[tuple(clause[start:end])] += 1
    return phrases


def _runs(terms: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each phrase: adjacent terms."""
    for start, first in enumerate(terms):
        longest = _MAX_PAIRS if first < _IDEOGRAPHS and UNSPACED.fullmatch(first) else _MAX_WORDS
        for end in range(start + 1, min(start + longest, len(terms)) + 1):
            if not terms[end - 1]:
                break
            yield start, end


def _clauses(text: str) -> list[list[str]]:
    """Return the words of each clause between punctuation, without anything that is not prose."""
    return list(filter(None, map(words, _BREAK.split(one_spelling(_NO_PROSE.sub("\n", text))))))


def _is_whole(terms: Terms, phrase: _Phrase) -> bool:
    """Tell whether it is not a part of a longer phrase or word, two words that happen to meet, or shouted once."""
    if phrase.times == 1:
        return len(terms) == 1 and not UNSPACED.fullmatch(terms[0]) and not phrase.form.isupper()
    return min(len(phrase.before), len(phrase.after)) > 1


def _names(form: str, language: str) -> bool:
    """Tell whether a phrase can name a topic: it has no number, version or time."""
    low, cues = plain(form), cues_of(language)
    low_words = low.split()
    is_when = cues.time.are_in(low_words, low) or not month_names(dotted=False).isdisjoint(low_words)
    return not is_when and not any(map(str.isdigit, low)) and not cues.number.are_in(low_words, low)


def _written(parts: Sequence[str]) -> str:
    """Join words by spaces, and pairs of characters where they overlap."""
    text = parts[0]
    for word in parts[1:]:
        text = pair(text, word) if UNSPACED.fullmatch(word) and UNSPACED.fullmatch(text) else f"{text} {word}"
    return text.removesuffix("'s").removesuffix("\u2019s")
