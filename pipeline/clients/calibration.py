"""Measure once for each embedding space the cosines of texts that say the same and of unrelated texts.

Models spread their cosines differently: what is high for one is below what any two texts have for another. Limits of
similarity are written as cosines of all-MiniLM-L6-v2, and every space is brought to its scale: cosines of questions so
that those to unrelated texts have its mean and spread, as their limits keep out what is unrelated; cosines of
documents so that those of unrelated and of equal texts have its means, as their limit tells what says the same.
"""

from collections.abc import Sequence
from itertools import permutations
from statistics import fmean, pstdev

from pipeline.clients.protocols import Embedder
from schemas.vectors import Calibration, Vector

PAIRS = (
    ("The key is under the flower pot", "We hid the key beneath the plant pot"),
    ("I can't eat peanuts, I'm allergic", "Peanuts make me ill because of an allergy"),
    ("The meeting was moved to Friday at ten", "We are meeting on Friday at 10 instead"),
    ("My sister just had a baby girl", "I have a new niece, my sister gave birth"),
    ("The server crashed again during the night", "Last night the server went down once more"),
    ("Let's paint the kitchen yellow", "I would like yellow walls in the kitchen"),
    ("He sold his car and rides a bike now", "He got rid of the car and cycles these days"),
    ("The train tickets cost 84 euros", "We paid 84 euros for the train"),
    ("Can somebody feed my cat next week?", "I need someone to look after the cat next week"),
    ("The landlord is raising the rent in May", "From May on our rent goes up"),
    ("I finished the novel you lent me", "I have read your book to the end"),
    ("The concert was sold out", "There were no more tickets for the concert"),
    ("She works as a nurse at night", "She is a nurse on the night shift"),
    ("Please send the invoice to the new address", "Mail the bill to our new address please"),
    ("The match ended two to one", "They won the game 2-1"),
    ("It rained the whole weekend", "We had rain all of Saturday and Sunday"),
)
"""Pairs of texts that say the same; texts of different pairs are unrelated."""
UNRELATED, SPREAD, EQUAL = 0.09, 0.084, 0.73
"""For all-MiniLM-L6-v2: mean and standard deviation of the cosines of unrelated texts, and the mean of equal ones."""
_LEAST = 1e-3


def calibrate(embedder: Embedder) -> tuple[Calibration, Calibration] | None:
    """Measure questions against documents, and documents against each other; None if all texts are equally similar."""
    questions = [embedder.embed_query(question) for question, _ in PAIRS]
    first, second = (embedder.embed_documents([pair[side] for pair in PAIRS]) for side in (0, 1))
    apart, between = _unrelated(questions, second), _unrelated(first, second)
    mean, spread, equal = fmean(between), pstdev(apart), fmean(map(_cosine, first, second))
    if spread < _LEAST or equal - mean < _LEAST:
        return None
    return (
        _line(SPREAD / spread, fmean(apart)),
        _line((EQUAL - UNRELATED) / (equal - mean), mean),
    )


def _unrelated(first: Sequence[Vector], second: Sequence[Vector]) -> list[float]:
    return [_cosine(first[one], second[other]) for one, other in permutations(range(len(PAIRS)), 2)]


def _line(slope: float, unrelated: float) -> Calibration:
    return Calibration(slope=slope, height=UNRELATED - slope * unrelated)


def _cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
