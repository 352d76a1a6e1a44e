"""What people wrote is in no cache: what was forgotten is not in memory either."""

import gc
import re
import sys
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from types import ModuleType
from typing import Any

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.erasure import forget
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.recall import build_context
from pipeline.store.connections.database import Database
from pipeline.text import caches
from schemas.forgetting import Subject
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.recall.test_context import CHAT, do_all

OURS = ("schemas", "pipeline", "workers", "ops")


def held() -> Iterator[object]:
    """What is reachable from our modules and from `re`, without going on into the modules of others."""
    left: list[object] = [
        vars(module) for name, module in sys.modules.items() if name.partition(".")[0] in OURS or name == "re"
    ]
    seen: set[int] = set()
    while left:
        found = left.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        # not `isinstance`, which asks some objects of others for what they warn about
        if not issubclass(type(found), ModuleType):
            left += gc.get_referents(found)


def is_held(word: str) -> list[str]:
    return [found[:80] for found in held() if type(found) is str and word in found]


def test_what_was_forgotten_is_in_no_cache(
    database: Database, settings: Settings, rules: SessionPolicy, policy: Policy
) -> None:
    # Given words that were said, summarized, asked about and quoted
    word = "".join(reversed("gibraltarzebra"))
    said = [message(n, f"the {word}{n} was seen by my sister yesterday?", id=f"m{n}") for n in range(8)]
    accept.accept(database, TENANT, CHAT, said)
    do_all(database, rules, policy)
    for asked in (f'who saw "the {word}1" last year and when?', f"{word.capitalize()}-42 or {word}3's?"):
        query = ContextQuery(chat_id=CHAT.chat_id, query=asked, explain=True, include_history=True)
        found = build_context(database, TENANT, query, embedder=DeterministicEmbedder(), settings=settings)
        assert word in found.text
    # When they are forgotten
    forget.start(database, TENANT, Subject(kind="chat", chat_id=CHAT.chat_id))
    while runner.run(database, "forget", forget.forgetter(database, rules), policy).claimed:
        pass
    del said, found, query, asked
    gc.collect()
    # Then nothing that outlives a request holds them
    kept = is_held(word)
    del word
    assert kept == []


def test_what_a_cache_remembers_is_no_text_and_not_too_much() -> None:
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    remembering = caches.cached(length, most=3)
    assert [remembering(text) for text in ("a", "bb", "a", "ccc", "dddd", "a")] == [1, 2, 1, 3, 4, 1]
    assert asked == ["a", "bb", "ccc", "dddd", "a"]
    inside: list[Any] = [cell.cell_contents for cell in remembering.__closure__ or ()]
    (known,) = (found for found in inside if isinstance(found, dict))
    assert all(isinstance(key, int) and isinstance(value, int) for key, value in known.items())
    assert len(known) <= 3


def test_no_function_of_ours_remembers_texts_by_their_words() -> None:
    """Of those that remember by what they are given, each is known to be given no words that people wrote."""
    remembering = {
        f"{found.__module__}.{found.__qualname__}"
        for found in held()
        if type(found) is _lru_cache_wrapper
        and str(found.__module__).partition(".")[0] in OURS
        # the developers' tools read talk that we wrote ourselves
        and not str(found.__module__).startswith("ops.dev.")
    }
    assert remembering <= {
        # a language, a vocabulary
        "pipeline.clients.tokenizers._loaded",
        "pipeline.recall.choose.wording.wording_of",
        "pipeline.recall.ask.naming._naming",
        "pipeline.text.calendars._calendar",
        "pipeline.text.calendars.calendars_of",
        "pipeline.text.calendars.month_names",
        "pipeline.text.cues._made",
        "pipeline.text.cues._parts",
        "pipeline.text.cues._stop_words",
        "pipeline.text.cues.common_words",
        "pipeline.text.cues.read",
        "pipeline.text.cues.requests._requests",
        "pipeline.text.languages.read",
        "pipeline.text.language._detectable",
        "pipeline.text.language._whole_model",
        # a platform
        "pipeline.platforms.kinds.of",
        # a path of the settings
        "workers.signals._heartbeat_file",
        # the vectors of the last 32 questions
        "pipeline.store.vectors.vectors._literal",
        # an embedding space, limits, a statement of ours
        "pipeline.store.search.arms._statement",
        "pipeline.store.search.candidate_rows._candidates",
        "pipeline.store.operations.catalog.expected",
        "pipeline.store.memories.memory_candidates._statement",
        "pipeline.store.search.narrowed_search._statement",
        "pipeline.store.search.prelude._statement",
        "pipeline.store.connections.statements._for_psycopg",
        "pipeline.store.connections.trips._numbered",
        "pipeline.store.search.vector_search._nearest",
    }


def test_a_pattern_of_somebodys_words_finds_what_any_does() -> None:
    assert caches.pattern("ann|bob", re.IGNORECASE).findall("Ann and bob") == ["Ann", "bob"]
