"""One judge of relevance: how likely is it that something has to do with what is asked?

A probability, learned on data (`backscroll dev fit --judge`), the same for every embedding model and language. Two
questions are asked:

- *Does the chat know?* `evidence` says it of a question, from how its best messages match: `strong`, `weak` or
  `none`. The less likely, the fewer lines are worth their tokens.
- *Has this to do with it?* `texts` says it of memories and passages, of which there are few: a wrong one costs
  twenty tokens, a missing one the answer.

`signals` is what the judge looks at, `logistic` how it weighs that, and `fitted.toml` the weights. All of it is pure.
"""

import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from math import isnan
from typing import Literal

import numpy as np
import numpy.typing as npt

from pipeline.recall.find.candidates import CandidateSet, Statistics, trust
from pipeline.recall.rank.rank import Scored
from pipeline.recall.request import Request
from pipeline.store.search.keyword_search import idf
from pipeline.text.excerpt import Wanted
from schemas.memories import EvidenceLevel

By = Literal["both", "words", "meaning"]
"""What a question is judged by: its words and its meaning, unless there is only one of these."""
SAID = {
    "coverage": "one of the best messages holds {:.0%} of the question's words, by rarity",
    "coverage_together": "the best messages hold {:.0%} of the question's words, by rarity",
    "session_words": "the best messages' sessions match the question's words by {:.2f}",
    "cosine": "the message nearest in meaning has a similarity of {:.2f}",
    "cosine_rise": "the message nearest in meaning is more similar than the chat's average by {:.2f}",
    "score_lead": "the best message scores more than the tenth by {:.2f}",
}
"""What each signal says, in plain words."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """How likely an answer is among what was found."""

    level: EvidenceLevel
    probability: float
    # of what lines are worth that remains: the less likely an answer, the fewer of them are shown
    share: float = 1.0
    # what decided: the parts of the logarithm of the odds, by signal
    parts: Mapping[str, float] = field(default_factory=dict)
    # what was looked at, by signal
    signals: Mapping[str, float] = field(default_factory=dict)
    # how likely the best memory or passage that is shown answers, where that decides; 0: messages do
    told: float = 0.0
    # why it is not called none where it is improbable; empty: nothing speaks against it
    unsure: str = ""

    def reasons(self) -> list[str]:
        """Say what decided, most decisive first."""
        told = [f"a memory or passage answers it with a probability of {self.told:.0%}"] if self.told else []
        decisive = sorted(self.parts, key=lambda name: -abs(self.parts[name]))
        said = [SAID[name].format(self.signals[name]) for name in decisive if self.parts[name]]
        return [reason.replace("%", " %") for reason in told + said]


WEIGHT_LIMITS = ("constant", "none_below", "full_from", "strong_from")
"""What a table holds beside weights."""
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """Weights of signals, by name, and a constant: together the logarithm of the odds."""

    constant: float
    weights: Mapping[str, float]
    # the probabilities below which there is no evidence, from which on it takes nothing from what lines are worth, and
    # from which on it is strong
    none_below: float = 0.0
    full_from: float = 1.0
    strong_from: float = 1.0

    def probabilities(self, signals: Mapping[str, Array]) -> Array:
        """Return the probability of each row; signals without a weight do not count."""
        odds = self.constant + sum(weight * signals[name] for name, weight in self.weights.items())
        # beyond this an exponential overflows, and nothing changes any more
        return np.asarray(1 / (1 + np.exp(-np.clip(odds, -60.0, 60.0))), dtype=np.float64)


@cache
def fitted(judged: str, by: str) -> Logistic:
    """Return the fitted weights for what is `judged` (`question`, `text`), and what it can be judged `by`.

    That is `both`, `words`, or `meaning`.
    """
    table = tomllib.loads((files(__package__) / "fitted.toml").read_text("utf-8"))[judged][by]
    own = {name: table.pop(name) for name in WEIGHT_LIMITS if name in table}
    return Logistic(weights=table, **own)


MESSAGES_READ, FIRST_MESSAGES = 3, 10
"""Best messages that are looked at, as the best alone may be chance, and the place up to which scores fall or not."""
LEAST_SPREAD = 0.05
"""Of cosines: less is rounding, or there are too few."""


def of_question(ranked: Sequence[Scored], statistics: Statistics) -> dict[str, Array]:
    """Return the signals of a question, each an array of one, from its ranked messages, best first."""
    first = ranked[:FIRST_MESSAGES]
    rarity = _rarity(statistics)
    shares = [_share(hit.candidate.terms, rarity) for hit in first[:MESSAGES_READ]]
    held = set[str]().union(*(hit.candidate.terms for hit in first[:MESSAGES_READ]))
    nearest = max(_known(hit.candidate.best_cosine for hit in ranked), default=statistics.mean_cosine)
    scores = [hit.score - hit.parts.get("length", 0.0) for hit in first] or [0.0]
    values = {
        "coverage": max(shares, default=0.0),
        "coverage_together": _share(held, rarity),
        "session_words": max(
            (hit.parts.get("session_words", 0.0) for hit in first[:MESSAGES_READ]), default=0.0
        ),
        "cosine": nearest,
        "cosine_rise": nearest - statistics.mean_cosine,
        "score_lead": scores[0] - scores[-1],
    }
    return {name: np.array([float(value)]) for name, value in values.items()}


def of_texts(
    texts: Sequence[str], cosines: Sequence[float | None], wanted: Wanted, named: Sequence[bool]
) -> dict[str, Array]:
    """Return the signals of memories, or of passages: each beside the others that were found.

    `named` are about a person whom the question names.
    """
    held = [wanted.held(text) for text in texts]
    frequency = Counter(word for words in held for word in words)
    rarity = {word: idf(len(texts), frequency[word]) for word in wanted.terms}
    coverage = np.array([_share(words, rarity) for words in held])
    known = _known(cosines)
    rise, far = _rises(cosines, float(np.mean(known)) if known else 0.0)
    cosine = np.nan_to_num(np.array([cosine or 0.0 for cosine in cosines], np.float64))
    return {
        "coverage": coverage,
        "coverage_far": coverage.max(initial=0.0) - coverage,
        "coverage_cosine": coverage * cosine,
        "cosine": cosine,
        "rise": rise,
        "far": far,
        "named": np.array(named, np.float64),
    }


def _rarity(statistics: Statistics) -> dict[str, float]:
    """Return the idf of each of the question's words."""
    return {word: idf(statistics.messages, count) for word, count in statistics.document_frequency.items()}


def _share(held: Iterable[str], rarity: Mapping[str, float]) -> float:
    """Return the share of words, by rarity, that are held; 0 without words."""
    return sum(rarity.get(word, 0.0) for word in held) / (sum(rarity.values()) or 1.0)


def _known(cosines: Iterable[float | None]) -> list[float]:
    """Return the cosines of what has a vector, and not one of zeros, to which no cosine is a number."""
    return [cosine for cosine in cosines if cosine is not None and not isnan(cosine)]


def _rises(cosines: Sequence[float | None], mean: float) -> tuple[Array, Array]:
    """Return how far cosines stand above a mean and below the best of them, in their spread; 0 without a vector."""
    values = np.array([np.nan if cosine is None else cosine for cosine in cosines], np.float64)
    if not len(values) or np.isnan(values).all():
        return np.zeros(len(values)), np.zeros(len(values))
    spread = max(float(np.nanstd(values)), LEAST_SPREAD)
    return np.nan_to_num((values - mean) / spread), np.nan_to_num((np.nanmax(values) - values) / spread)


LIMIT = 0.45
"""Minimum worth to be shown. It was chosen on the fitted chats, at a budget of 2,000 tokens."""
BEST = 3
"""Messages whose mean score is worth 1: the best alone may be chance."""
NO_SCALE = ("length", "phrase", "exact")
"""Parts of a score that do not set what others are worth: a long message, or one that has the very words."""
OF_WORDS = ("words", "session_words")
"""Parts of a score that mean nothing where the question is in another language than the chat."""
MIN_MESSAGES = 50
"""Messages of a chat below which nobody can say that it does not know: their cosines have no distribution."""
LEVELS: Sequence[EvidenceLevel] = ("none", "weak", "strong")
NEAREST = 3
"""Messages shown where there is no evidence, marked as such."""


def evidence(ranked: Sequence[Scored], statistics: Statistics, by: By, unsure: str = "") -> Evidence:
    """Judge whether a chat knows what it is asked, from its messages, best first.

    Where it cannot be told, for the reason `unsure`, or as the chat has few messages, evidence is never none.
    """
    judge = fitted("question", by)
    found = of_question([hit for hit in ranked if not hit.candidate.noise], statistics)
    probability = float(judge.probabilities(found)[0])
    if statistics.messages < MIN_MESSAGES:
        unsure = (
            unsure or f"the chat has {statistics.messages} messages, and {MIN_MESSAGES} are needed to tell"
        )
    values = {name: float(found[name][0]) for name in judge.weights}
    level: EvidenceLevel = "strong" if probability >= judge.strong_from else "weak"
    if probability < judge.none_below and not unsure:
        level = "none"
    return Evidence(
        level=level,
        probability=round(probability, 4),
        share=1.0 if unsure else min(1.0, probability / judge.full_from),
        parts={name: round(weight * values[name], 4) for name, weight in judge.weights.items()},
        signals=values,
        unsure=unsure,
    )


def worths(ranked: Sequence[Scored], evidence: Evidence | None, by: By = "both") -> list[float]:
    """Return what messages are worth: the score as a share of the mean of the best `BEST`, times the evidence's share.

    Without evidence only the `NEAREST` are worth showing. Asides are worth nothing.
    """
    ignored = ("length", *OF_WORDS) if by == "meaning" else ("length",)
    scores = [0.0 if hit.candidate.noise else max(_without(hit, ignored), 0.0) for hit in ranked]
    heard = [hit for hit in ranked if not hit.candidate.noise]
    best = sorted(_without(hit, {*ignored, *NO_SCALE}) for hit in heard)[-BEST:]
    mean = sum(best) / max(len(best), 1)
    shares = [min(score / mean, 1.0) if mean > 0 else 0.0 for score in scores]
    if evidence is None:
        return shares
    if evidence.level == "none":
        nearest = sorted(shares, reverse=True)[:NEAREST]
        return [LIMIT if nearest and 0 < share >= nearest[-1] else 0.0 for share in shares]
    return [share * evidence.share for share in shares]


def _without(hit: Scored, parts: Collection[str]) -> float:
    return hit.score - sum(hit.parts.get(name, 0.0) for name in parts)


def texts(
    contents: Sequence[str],
    cosines: Sequence[float | None],
    wanted: Wanted,
    by: By,
    named: Sequence[bool] | None = None,
) -> Array:
    """Return the probability of each memory, or of each passage, to say what is asked; see `signals.of_texts`.

    One that waits for its vector is judged by its words alone.
    """
    found = of_texts(contents, cosines, wanted, named or [False] * len(contents))
    waits = [cosine is None for cosine in cosines]
    by_words = fitted("text", "words").probabilities(found)
    return np.where(waits, by_words, fitted("text", by).probabilities(found))


def with_told(evidence: Evidence, told: float, by: By) -> Evidence:
    """Return the evidence of a context whose best memory or passage answers with the probability `told`.

    What messages do not say, one of these may.
    """
    level = level_of_text(told, by)
    if (LEVELS.index(level), told) <= (LEVELS.index(evidence.level), evidence.probability):
        return evidence
    return replace(evidence, level=level, probability=round(told, 4), told=told)


def level_of_text(best: float, by: By) -> EvidenceLevel:
    """Return whether the best memory, or passage, that was found for a question answers it."""
    if best < LIMIT:
        return "none"
    return "strong" if best >= fitted("text", by).strong_from else "weak"


def evidence_of(
    request: Request, ranked: Sequence[Scored], retrieved: CandidateSet | None
) -> Evidence | None:
    """Judge whether ranked messages answer a question.

    One that asks for all, or for nothing but times or people, is not judged: whatever was said there and then, or is
    known of them, answers it.
    """
    question, language = request.question, request.chat.language
    if retrieved is None or question.asks_for_all or not request.lexemes:
        return None
    if not Wanted.of(question.content, language).terms:
        return None
    by = judged_by(request)
    if by == "words" and request.question.language != request.chat.language:
        # those of another language than the chat's match nothing in it
        return None
    waits = request.snapshot.waits or any(
        hit.candidate.cosine is None and not hit.candidate.noise and hit.candidate.message.content.strip()
        for hit in ranked
    )
    reasons = list(request.unembedded)
    if waits and by != "words":
        reasons.append("messages wait for their vectors")
    if request.as_of is not None:
        reasons.append("what the chat had by then was not counted")
    if by == "meaning":
        reasons.append("the question is in another language than the chat")
    unsure = "; ".join(reasons)
    return evidence(ranked, retrieved.statistics, by, unsure)


def judged_by(request: Request) -> By:
    """Return what a question is judged by: by its meaning only where the model knows the languages."""
    embedded, chat = request.embedded, request.chat
    if embedded is None or embedded[0].questions is None or trust(chat.language, embedded[0].model) < 1:
        return "words"
    same = request.question.language == chat.language and request.lexemes
    return "both" if same else "meaning"
