"""Hold the embedders of stored spaces, and measure for each what its cosines mean.

Models spread their cosines differently: what is high for one is below what any two texts have for another. Limits of
similarity are written as cosines of all-MiniLM-L6-v2, and every space is brought to its scale: cosines of questions so
that those to unrelated texts have its mean and spread, as their limits keep out what is unrelated; cosines of
documents so that those of unrelated and of equal texts have its means, as their limit tells what says the same.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from itertools import permutations
from statistics import fmean, pstdev

from pipeline.clients.protocols import Embedder
from schemas.errors import ProviderUnavailable, SettingsError
from schemas.vectors import Calibration, EmbeddingSpace, Vector


class SpaceEmbedders:
    """An embedder for each space, made at its first use and shared by the threads of a process."""

    def __init__(self, make: Callable[[EmbeddingSpace], Embedder]) -> None:
        self._make = make
        self._made: dict[EmbeddingSpace, Embedder] = {}
        self._lock = threading.Lock()

    def of(self, space: EmbeddingSpace) -> Embedder:
        """Return the embedder of a stored space.

        Raises `SettingsError` if the settings permit none, `ProviderUnavailable` if it cannot be made now.
        """
        # without the lock: while a new model is loaded, questions still use the other
        if (embedder := self._made.get(space)) is not None:
            return embedder
        with self._lock:
            if space not in self._made:
                self._made[space] = self._make(space)
            return self._made[space]

    def keep(self, spaces: Collection[EmbeddingSpace]) -> None:
        """Release the models of all other spaces."""
        with self._lock:
            for space in self._made.keys() - set(spaces):
                del self._made[space]


Embedding = Embedder | SpaceEmbedders
"""The embedder of texts: one model, or one for each space."""


def embedder_of(embedding: Embedding | None, space: EmbeddingSpace) -> Embedder | None:
    """Return the embedder of a stored space, or None if `embedding` has none for it.

    It may load a model, or ask a server. Raises `ProviderUnavailable`, also if the settings do not permit it.
    """
    if isinstance(embedding, SpaceEmbedders):
        try:
            return embedding.of(space)
        except SettingsError as error:
            raise ProviderUnavailable(str(error)) from error
    return embedding if embedding is not None and space.same_as(embedding.space) else None


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
