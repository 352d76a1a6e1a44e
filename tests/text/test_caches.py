"""What people wrote is in no cache: what was forgotten is not in memory either."""

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.erasure import forget
from pipeline.ingest import accept
from pipeline.recall import build_context
from pipeline.store.connections.database import Database
from schemas.payloads import ContextQuery
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.harness.contexts import CHAT, do_all
from tests.harness.pipeline import forget_all

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


def test_what_was_forgotten_is_in_no_cache(database: Database, settings: Settings) -> None:
    # Given words that were said, summarized, asked about and quoted
    word = "".join(reversed("gibraltarzebra"))
    said = [message(n, f"the {word}{n} was seen by my sister yesterday?", id=f"m{n}") for n in range(8)]
    accept.accept(database, TENANT, CHAT, said)
    do_all(database)
    for asked in (f'who saw "the {word}1" last year and when?', f"{word.capitalize()}-42 or {word}3's?"):
        query = ContextQuery(chat_id=CHAT.chat_id, query=asked, explain=True, include_history=True)
        found = build_context(database, TENANT, query, embedder=DeterministicEmbedder(), settings=settings)
        assert word in found.text
    forget.start(database, TENANT, Subject(kind="chat", chat_id=CHAT.chat_id))
    forget_all(database)
    del said, found, query, asked
    gc.collect()
    # Then nothing that outlives a request holds them
    kept = is_held(word)
    del word
    assert kept == []
