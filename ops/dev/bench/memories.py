"""What learning costs for 10,000 messages, and what 90,000 memories of a tenant cost a context.

On a Postgres of its own that does not wait for the disk. Every eighth message asks the bot to keep
something. The many memories are written straight into the tables, with vectors, most of them the organization's.
"""

import random
from collections.abc import Iterator
from statistics import median

from sqlalchemy import text

from ops.dev import shipped
from ops.dev.bench.figures import Figure
from ops.dev.bench.talk import PEOPLE, VOCABULARY, conversation, question_words
from ops.dev.observe import Say, timed
from ops.dev.shipped import Shipped
from pipeline.store import vectors
from schemas.messages import ChatIn, MessageIn

MESSAGES, EVERY = 10_000, 8
MEMORIES, OF_PEOPLE, OF_ASKER = 90_000, 30_000, 200
QUESTIONS = 60
CHAT = ChatIn(chat_id="bench:memories", kind="group")
ASKER = f"bench:{PEOPLE[0]}"
STATEMENTS = (
    "Bot, call me {}.",
    "Bot, remember that I live in {}.",
    "Bot, remember that I'm allergic to {}.",
    "Bot, remember that we take the {} room.",
)

_ROWS = text("""
    SELECT (SELECT count(*) FROM memories) AS memories, (SELECT count(*) FROM memory_evidence) AS evidence,
        (SELECT count(*) FROM memory_supersessions) AS supersessions
""")
_FILL = text("""
    INSERT INTO memories (tenant_id, id, scope, type, user_id, content, content_hash, importance, learned_in, language)
    SELECT :tenant, gen_random_uuid(), CASE WHEN n <= :people THEN 'user' ELSE 'organization' END, 'fact',
        CASE WHEN n <= :asker THEN :who WHEN n <= :people THEN 'bench:' || mod(n, 300) END, content,
        decode(md5(n || content), 'hex'), 1 + mod(n, 9), :chat, 'english'
    FROM unnest(CAST(:contents AS text[])) WITH ORDINALITY AS each (content, n)
    RETURNING id, content
""")


def measure(say: Say) -> list[Figure]:
    """Measure all of it. Raises what starting Postgres raises."""
    with shipped.temporary() as backscroll:
        return [*_learning(backscroll, say), *_contexts(backscroll, say)]


def _talk() -> Iterator[MessageIn]:
    rng = random.Random(3)  # noqa: S311
    for number, message in enumerate(conversation(3, MESSAGES)):
        if number % EVERY:
            yield message
        else:
            stated = rng.choice(STATEMENTS).format(rng.choice(VOCABULARY[:300]).title())
            yield message.model_copy(update={"content": stated})


def _learning(backscroll: Shipped, say: Say) -> Iterator[Figure]:
    backscroll.accept(CHAT, list(_talk()))
    say("placing")
    placing, _ = timed(backscroll.run_all, "ingest")
    say("learning")
    reading, sessions = timed(_all, backscroll)
    backscroll.run_all("embed")
    comparing, learned = timed(_all, backscroll)
    with backscroll.database.tenant(backscroll.tenant) as connection:
        rows = connection.execute(_ROWS).one()
    yield Figure("placing 10,000 messages", round(placing), "ms")
    yield Figure("reading their sessions for facts", round(reading), "ms", ratio=round(reading / placing, 2))
    yield Figure(
        "comparing what was learned, by vectors", round(comparing), "ms", ratio=round(comparing / placing, 2)
    )
    yield Figure("jobs: sessions read, and memories compared", sessions + learned, "jobs")
    for name, count in rows._mapping.items():
        yield Figure(f"rows of {name}", count, "rows")


def _all(backscroll: Shipped) -> int:
    """Do all due jobs that learn, and return how many these were."""
    done = 0
    while claimed := backscroll.run("extract").claimed:
        done += claimed
    return done


def _contexts(backscroll: Shipped, say: Say) -> Iterator[Figure]:
    backscroll.run_all("summarize", "embed")
    backscroll.vacuum()
    say("contexts")
    rng = random.Random(5)  # noqa: S311
    questions = [question_words(rng) for _ in range(QUESTIONS)]
    none = _ask(backscroll, questions, memories=0)
    few = _ask(backscroll, questions)
    say(f"writing {MEMORIES:,} memories")
    _fill(backscroll)
    backscroll.vacuum()
    say("contexts")
    many = _ask(backscroll, questions)
    yield Figure("a context without memories", round(none, 1), "ms")
    yield Figure("with what was learned", round(few, 1), "ms", ratio=round(few / none, 2))
    yield Figure(
        f"with {MEMORIES:,} memories in the tenant", round(many, 1), "ms", ratio=round(many / none, 2)
    )


def _ask(backscroll: Shipped, questions: list[str], **parameters: int) -> float:
    """Return the median of what contexts take in milliseconds; the first ones warm up."""
    given = {"memories": 5, "documents": 5} if not parameters else parameters | {"documents": 0}
    took = [
        timed(backscroll.ask, CHAT.chat_id, q, 2000, user_id=ASKER, parameters=given)[0] for q in questions
    ]
    return median(took[10:])


def _fill(backscroll: Shipped) -> None:
    rng = random.Random(7)  # noqa: S311
    contents = [" ".join(rng.choices(VOCABULARY[:3000], k=12)) for _ in range(MEMORIES)]
    embedder = backscroll.resources.embedder
    with backscroll.database.tenant(backscroll.tenant) as connection:
        space = vectors.active_space(connection)
        if space is None:
            raise RuntimeError("there is no embedding space")
        for start in range(0, MEMORIES, 10_000):
            given = {"tenant": backscroll.tenant, "who": ASKER, "chat": CHAT.chat_id}
            part = {"contents": contents[start : start + 10_000], "people": max(0, OF_PEOPLE - start)}
            rows = connection.execute(_FILL, given | part | {"asker": max(0, OF_ASKER - start)}).all()
            made = embedder.embed_documents([row.content for row in rows])
            vectors.put(
                connection,
                backscroll.tenant,
                "memory",
                space.id or 0,
                [(str(row.id), row.id.bytes, [vector]) for row, vector in zip(rows, made, strict=True)],
            )
