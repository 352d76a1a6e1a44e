"""Fit the ranking's weights on the chats of the part `fit`, grouped by chat, and say what each feature is worth."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from ops.dev import shipped
from ops.dev.eval import samples
from ops.dev.eval.pairwise import NAMES, Array, Matrix, Pairs, as_array, fit, recalls, sharpness_of
from ops.dev.eval.question_messages import asked_as_message
from ops.dev.eval.samples import UNANSWERABLE, SampleChat
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from pipeline.recall.ask.ask import parse_question
from pipeline.recall.ask.request import Stopwatch, for_context
from pipeline.recall.ask.weights import Weights
from pipeline.recall.find_and_rank import gather_ranked
from pipeline.recall.prepare import prepare_query
from pipeline.recall.rank.features import features
from schemas.errors import InvalidInput
from schemas.payloads import ContextQuery
from schemas.settings import Settings

BY_HAND = ("latest", "affinity", "date", "phrase", "exact")
"""Features whose weights are chosen by hand: too few questions have them or, as `affinity`, too few chats are large."""
STRENGTHS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
"""Of L2, from which cross-validation chooses."""
# A feature that is worth fewer points than this is not worth its code.
LEAST_WORTH = 0.003

Part = dict[str, list[Matrix]]
"""The questions of each chat."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to fit."""

    # features that keep their weights
    fixed: Collection[str] = BY_HAND
    # of the catalogue those with these names; none: all
    only: tuple[str, ...] = ()
    # where the candidates are kept, and read if they are there
    cache: Path | None = None
    folder: Traversable = samples.CHATS


def fitted(settings: Settings, options: Options, progress: Say) -> dict[str, Any]:
    """Return the weights, how well they rank, and what each feature is worth.

    Raises `InvalidInput` for an unknown chat or feature, without chats to fit on, or for a cache of other chats or
    features.
    """
    for name in options.fixed:
        if name not in NAMES:
            raise InvalidInput(f"there is no feature {name!r}: see {', '.join(NAMES)}", field="fix")
    known = samples.chosen(samples.catalogue(options.folder), "all", options.only)
    by_chat = _matrices(settings, options, list(known), progress)
    parts = {
        part: {
            name: by_chat[name] for name, facts in known.items() if facts.part == part and by_chat.get(name)
        }
        for part in ("fit", "held")
    }
    if len(parts["fit"]) < 2:
        raise InvalidInput("weights are fitted on two chats of the part `fit` or more", field="only")
    return choose(parts["fit"], parts["held"], options.fixed, progress)


def choose(part: Part, held: Part, fixed: Collection[str], progress: Say) -> dict[str, Any]:
    """Choose the strength of L2 by leaving out one chat at a time, fit on all, and refit without each feature."""
    start = as_array(Weights())
    free = [name for name in NAMES if name not in fixed]
    pairs = {chat: Pairs.of(matrices, start) for chat, matrices in part.items()}
    sizes = {chat: len(matrices) for chat, matrices in part.items()}
    everything = _joined(pairs, sizes)
    sharpness = sharpness_of(everything, start)
    whole = {l2: fit(everything, start, free, l2, sharpness) for l2 in STRENGTHS}
    left_out: dict[float, dict[str, dict[str, float]]] = {}
    for l2 in STRENGTHS:
        left_out[l2] = {}
        for chat, matrices in part.items():
            progress(f"L2 {l2:g}: without {chat}")
            others = _joined({name: pairs[name] for name in pairs if name != chat}, sizes)
            left_out[l2][chat] = recalls(matrices, fit(others, whole[l2], free, l2, sharpness))
    validated = {l2: _mean(by_chat, sizes) for l2, by_chat in left_out.items()}
    l2 = max(STRENGTHS, key=lambda each: (fmean(validated[each].values()), each))
    best = whole[l2]
    rounded = np.round(best, 2)
    every, judged = list(_all(part)), list(_all(held))

    def without(name: str) -> Array:
        progress(f"without {name}")
        nothing = np.where(np.array(NAMES) == name, 0.0, best)
        return fit(everything, nothing, [each for each in free if each != name], l2, sharpness)

    return {
        "weights": dict(zip(NAMES, rounded.tolist(), strict=True)),
        "fixed": sorted(fixed),
        "l2": l2,
        "sharpness": round(sharpness, 3),
        "pairs": len(everything.counts),
        "cross_validated": {f"{each:g}": shares for each, shares in validated.items()},
        "by_chat": {
            chat: {"questions": sizes[chat], "shipped": recalls(part[chat], start), "left_out": shares}
            for chat, shares in left_out[l2].items()
        },
        "fit": _beside(every, start, rounded),
        "held": _beside(judged, start, rounded),
        "features": worth(judged or every, best, without),
    }


def worth(judged: Sequence[Matrix], best: Array, without: Callable[[str], Array]) -> dict[str, Any]:
    """Return, for each feature, how many questions have it, and what recall loses without it, refitted."""
    whole = recalls(judged, best)
    found = {}
    for name in NAMES:
        less = recalls(judged, without(name))
        lost = {k: round(whole[k] - less[k], 4) for k in whole}
        found[name] = {
            "questions": sum(one.fires(name) for one in judged),
            "lost": lost,
            "small": max(lost.values()) < LEAST_WORTH,
        }
    return found


def _joined(pairs: Mapping[str, Pairs], sizes: Mapping[str, int]) -> Pairs:
    """Join the pairs of chats; each counts by its number of questions."""
    total = sum(sizes[chat] for chat in pairs)
    return Pairs(
        differences=np.concatenate([each.differences for each in pairs.values()]),
        counts=np.concatenate([each.counts * sizes[chat] / total for chat, each in pairs.items()]),
    )


def _mean(by_chat: Mapping[str, Mapping[str, float]], sizes: Mapping[str, int]) -> dict[str, float]:
    total = sum(sizes.values())
    ks = next(iter(by_chat.values()))
    return {k: round(sum(shares[k] * sizes[chat] for chat, shares in by_chat.items()) / total, 4) for k in ks}


def _beside(matrices: Sequence[Matrix], start: Array, new: Array) -> dict[str, Any]:
    return {"questions": len(matrices), "shipped": recalls(matrices, start), "fitted": recalls(matrices, new)}


def _all(part: Part) -> Iterator[Matrix]:
    for matrices in part.values():
        yield from matrices


def _matrices(settings: Settings, options: Options, names: Sequence[str], progress: Say) -> Part:
    """Gather the candidates of these chats, or read them from the cache."""
    if options.cache is not None and options.cache.exists():
        kept = load(options.cache)
        if missing := [name for name in names if name not in kept]:
            raise InvalidInput(f"{options.cache} lacks {', '.join(missing)}: remove it", field="cache")
        return {name: kept[name] for name in names}
    gathered: Part = {name: [] for name in names}
    with shipped.temporary(settings) as backscroll:
        for name in names:
            sample = samples.read_chat(name, options.folder)
            backscroll.fill(sample.chat, sample.messages, progress)
            gathered[name] = list(gather(backscroll, sample, progress))
    if options.cache is not None:
        save(options.cache, gathered)
    return gathered


def gather(backscroll: Shipped, sample: SampleChat, progress: Say) -> Iterator[Matrix]:
    """Put each question that has an answer to the bot, and take the candidates of the shipped retrieval."""
    database, tenant, settings = backscroll.database, backscroll.tenant, backscroll.settings
    for number, case in enumerate(sample.cases, start=1):
        if case.kind == UNANSWERABLE:
            continue
        progress(f"{sample.name}: question {number} of {len(sample.cases)}")
        message = asked_as_message(sample.chat, sample.messages, case.question, case.asked_at)
        query = ContextQuery(chat_id=sample.chat.chat_id, query=case.question, user_id=message.sender_id)
        with backscroll.put(sample.chat, message):
            with database.tenant(tenant) as connection:
                parsed = parse_question(connection, for_context(connection, query, settings))
            embedder, stopwatch = backscroll.resources.embedder, Stopwatch()
            prepared = prepare_query(database, tenant, parsed, embedder, stopwatch)
            retrieved = gather_ranked(database, tenant, prepared, stopwatch).retrieved
        if retrieved is not None:
            found = features(prepared.question, retrieved.candidates, retrieved.statistics)
            yield Matrix.of(sample.name, case.kind, found, case.evidence)


def save(file: Path, part: Part) -> None:
    """Keep matrices in a file."""
    matrices = list(_all(part))
    about = [{"chat": one.chat, "kind": one.kind, "evidence": one.evidence} for one in matrices]
    header = json.dumps({"names": NAMES, "chats": list(part), "questions": about})
    arrays: dict[str, Any] = {"header": np.array(header)}
    for n, one in enumerate(matrices):
        arrays |= {f"{name}{n}": getattr(one, name) for name in ("rows", "relevant", "aside", "place")}
    with file.open("wb") as into:
        np.savez_compressed(into, **arrays)


def load(file: Path) -> Part:
    """Read what `save` has kept. Raises `InvalidInput` if it is something else, or of other features."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            header = json.loads(str(arrays["header"]))
            if tuple(header["names"]) != NAMES:
                raise InvalidInput(f"{file} is of other features: remove it", field="cache")
            part: Part = {name: [] for name in header["chats"]}
            for n, about in enumerate(header["questions"]):
                given = {name: arrays[f"{name}{n}"] for name in ("rows", "relevant", "aside", "place")}
                part[about["chat"]].append(Matrix(**about, **given))
    except (OSError, ValueError, KeyError) as error:
        raise InvalidInput(f"{file} holds no candidates: remove it ({error})", field="cache") from error
    return part
