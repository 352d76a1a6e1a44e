"""What is known of somebody after a thousand turns is little, true, and what matters."""

import random

import pytest
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.enrich.stated_facts.extractor import RuleExtractor
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.memories.learn import Learning, learner
from pipeline.operations.retention import prune, retention_of
from pipeline.store.database import Database
from pipeline.text.duplicates import says_the_same
from schemas.messages import ChatIn, MessageIn
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.test_pipeline import place, rows, run

# coverage would take longer than what it watches
pytestmark = pytest.mark.no_cover

CHAT = ChatIn(chat_id="test:thousand", kind="direct")
TURNS = 1000
THINGS = [
    a + b
    for a in ("bra", "mul", "ven", "tor", "sil", "gan", "pel", "dro", "fim", "kas", "lor", "nib", "ost")
    for b in (
        "den",
        "mic",
        "lot",
        "ras",
        "tan",
        "vel",
        "gos",
        "ham",
        "jun",
        "wig",
        "pax",
        "zor",
        "quil",
        "bent",
    )
]
MATTERS = ("I'm allergic to hazelnuts.", "my name is Annika", "My birthday is on 3 May.")


def said(turn: int, rng: random.Random) -> str:
    if turn % 250 == 100:
        return "I live in {}.".format(["Porto", "Lisbon", "Faro", "Braga"][turn // 250])
    if turn % 97 == 0:
        return MATTERS[turn % len(MATTERS)]
    return rng.choice(("I love {}.", "I really love {}!", "I can't stand {}.")).format(rng.choice(THINGS))


def test_after_a_thousand_turns_a_users_memory_is_small_without_repetition_and_holds_what_matters(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    rng = random.Random(7)
    turns = [
        MessageIn.model_validate(
            message(60 * turn, said(turn, rng), id=f"t{turn}").model_dump()
            | {"sender_id": "test:ann", "sender_name": "Ann"}
        )
        for turn in range(TURNS)
    ]
    for start in range(0, TURNS, 100):
        accept.accept(database, TENANT, CHAT, turns[start : start + 100])
    place(database, rules, policy)
    wide = Policy(batch=500, lease_seconds=120, max_attempts=5)
    learn = learner(database, Learning(extractor=RuleExtractor(), rules=RuleExtractor()))
    for _ in range(2):
        run(database, "extract", learn, wide)
        run(database, "embed", embed.embedder(database, DeterministicEmbedder()), wide)
    assert rows(database, "SELECT count(*) > 200 FROM memories") == [(True,)]
    prune(database, TENANT, retention_of(Settings(_env_file=None)))
    kept = [row[0] for row in rows(database, "SELECT content FROM memories ORDER BY id")]
    current = [
        row[0]
        for row in rows(
            database,
            """SELECT content FROM memories m WHERE NOT EXISTS (
                SELECT 1 FROM memory_supersessions s WHERE s.memory_id = m.id)""",
        )
    ]
    assert len(kept) <= 200
    assert not [
        (one, other) for n, one in enumerate(current) for other in current[:n] if says_the_same(one, other)
    ]
    for piece in ("hazelnuts", "Annika", "3 May", "Braga"):
        assert [content for content in current if piece in content], piece
    assert not [content for content in current if "Porto" in content]
    with database.tenant(TENANT) as connection:
        told = connection.scalar(text("SELECT confidence FROM memories WHERE content LIKE '%hazelnuts%'"))
    assert told is not None
    assert told > 0.95
