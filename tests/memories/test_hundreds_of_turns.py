"""What is known of somebody after hundreds of turns is little, true, and what matters."""

import random
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.vectors import embed
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.memories.learn import Learning, learner
from pipeline.operations.retention import prune, retention_of
from pipeline.store.connections.database import Database
from pipeline.text.duplicates import says_the_same
from schemas.facts import RULES, Fact
from schemas.messages import ChatIn, MessageIn
from schemas.sessions import Message
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.memories.told import fact
from tests.test_pipeline import place, rows, run

# coverage would take longer than what it watches
pytestmark = pytest.mark.no_cover

CHAT = ChatIn(chat_id="test:hundreds", kind="direct")
TURNS = 240
MOST = 50
# of the words that the hashes of the embedder take for one, the last
THINGS = list(
    {
        max(enumerate(map(abs, DeterministicEmbedder().embed_query(a + b))), key=itemgetter(1))[0]: a + b
        for a in "bra mul ven tor sil gan pel dro fim kas lor nib ost".split()
        for b in "den mic lot ras tan vel gos ham jun wig pax zor quil bent".split()
    }.values()
)
# What is said, with its attribute, its value and its importance.
Told = tuple[str, str, str, float]
MATTERS: tuple[Told, ...] = (
    ("Ann is allergic to hazelnuts.", "allergy hazelnuts", "yes", 9),
    ("Ann is called Annika.", "name", "annika", 8),
    ("Ann's birthday is on 3 May.", "birthday", "05-03", 7),
)


def said(turn: int, rng: random.Random) -> Told:
    if turn % 60 == 30:
        place = ["Porto", "Lisbon", "Faro", "Braga"][turn // 60]
        return f"Ann lives in {place}.", "home", place.lower(), 8
    if turn % 23 == 0:
        return MATTERS[turn % len(MATTERS)]
    thing = rng.choice(THINGS)
    loves = (f"Ann loves {thing}.", f"likes {thing}", "yes", 3.0)
    return rng.choice(
        (loves, (f"Ann really loves {thing}!", *loves[1:]), (f"Ann hates {thing}.", loves[1], "no", 3.0))
    )


class Model:
    """A language model that has understood what is said."""

    model = RULES

    def __init__(self, told: Sequence[Told]) -> None:
        self.told = {each[0]: each for each in told}

    def extract(self, messages: Sequence[Message], **given: Any) -> list[Fact]:
        return [
            fact(content, "Ann", attribute, value, importance=importance, message_ids=(each.id,))
            for each in messages
            for content, attribute, value, importance in (self.told[each.content],)
        ]


def test_after_hundreds_of_turns_a_users_memory_is_small_without_repetition_and_holds_what_matters(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    rng = random.Random(7)
    told = [said(turn, rng) for turn in range(TURNS)]
    turns = [
        MessageIn.model_validate(
            message(60 * turn, each[0], id=f"t{turn}").model_dump()
            | {"sender_id": "test:ann", "sender_name": "Ann"}
        )
        for turn, each in enumerate(told)
    ]
    for start in range(0, TURNS, 100):
        accept.accept(database, TENANT, CHAT, turns[start : start + 100])
    place(database, rules, policy)
    wide = Policy(batch=500, lease_seconds=120, max_attempts=5)
    learn = learner(database, Learning(extractor=Model(told), rules=Model(told)))
    for _ in range(2):
        run(database, "extract", learn, wide)
        run(database, "embed", embed.embedder(database, DeterministicEmbedder()), wide)
    assert rows(database, f"SELECT count(*) > {MOST} FROM memories") == [(True,)]
    prune(database, TENANT, retention_of(Settings(_env_file=None, memory_user_max=MOST)))
    kept = [row[0] for row in rows(database, "SELECT content FROM memories ORDER BY id")]
    current = [
        row[0]
        for row in rows(
            database,
            """SELECT content FROM memories m WHERE NOT EXISTS (
                SELECT 1 FROM memory_supersessions s WHERE s.memory_id = m.id)""",
        )
    ]
    assert len(kept) <= MOST
    assert not [
        (one, other) for n, one in enumerate(current) for other in current[:n] if says_the_same(one, other)
    ]
    for piece in ("hazelnuts", "Annika", "3 May", "Braga"):
        assert [content for content in current if piece in content], piece
    assert not [content for content in current if "Porto" in content]
    with database.tenant(TENANT) as connection:
        sure = connection.scalar(text("SELECT confidence FROM memories WHERE content LIKE '%hazelnuts%'"))
    assert sure is not None
    assert sure > 0.95
