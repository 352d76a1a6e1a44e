"""A chat with everything, to ask for contexts of."""

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.enrich.summaries import summarize
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.enrich.summaries.summary_policy import SummaryPolicy
from pipeline.ingest import accept, place
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn, MessageIn
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.harness.pipeline import run

CHAT = ChatIn(chat_id="test:house", title="The house", time_zone="Europe/Lisbon")
DAY = 24 * 60


def house() -> list[MessageIn]:
    """Three sessions on three days: the boiler, a boat trip, small talk."""
    said = [
        (0, "Ann", "the boiler is broken again, it shows E41"),
        (1, "Bob", "I know a plumber from Almada"),
        (2, "Ann", "ok decided: we take the plumber from Almada for 240 euros"),
        (3, "Bob", "great, I call her tomorrow"),
        (DAY, "Cy", "who wants to go on a boat trip in May?"),
        (DAY + 1, "Ann", "me! the marina has an old wooden boat"),
        (DAY + 2, "Cy", "280 for half a day, up to 8 people"),
        (DAY + 3, "Bob", "count me in"),
        (2 * DAY, "Bob", "good morning"),
        (2 * DAY + 1, "Cy", "coffee is ready"),
        (2 * DAY + 2, "Ann", "thanks"),
        (2 * DAY + 3, "Bob", "you are welcome"),
    ]
    return [
        message(minute, content, id=f"h{n}", sender_name=name, sender_id=f"test:{name}")
        for n, (minute, name, content) in enumerate(said)
    ]


def do_all(database: Database, rules: SessionPolicy = SESSION_POLICY, policy: Policy = POLICY) -> None:
    handlers = {
        "ingest": place.placer(database, rules),
        "summarize": summarize.summarizer(
            database, ExtractiveSummarizer(), SummaryPolicy(min_messages=4, version=1)
        ),
        "embed": embed.embedder(database, DeterministicEmbedder()),
    }
    for kind, handler in handlers.items():
        run(database, kind, handler, policy)


def fill(database: Database) -> None:
    accept.accept(database, TENANT, CHAT, house())
    do_all(database)
