"""People whose memories are learned from what they say."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.protocols import People
from pipeline.ingest import accept
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.memories.learn import Learning, learner
from pipeline.store.connections.database import Database
from schemas.errors import ProviderFailed
from schemas.facts import RULES, Fact
from schemas.messages import ChatIn
from schemas.sessions import Message
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.harness.pipeline import embed_all, place, rows, run
from tests.memories.told import ToldModel, fact

GROUP = ChatIn(chat_id="test:group", title="Group")
DIRECT = ChatIn(chat_id="test:direct", title="Direct", kind="direct")


class Reading:
    """Learns what messages of the form `subject | attribute | value | until when` say, the last part at will."""

    def __init__(self, model: str = RULES, *, fails: bool = False) -> None:
        self.model = model
        self.fails = fails
        self.known: list[str] = []

    def extract(self, messages: Sequence[Message], *, people: People, **given: Any) -> list[Fact]:
        if self.fails:
            raise ProviderFailed("its answer cannot be used")
        self.known = [each.content for each in given["known"]]
        return [self._fact(each, people) for each in messages if "|" in each.content]

    def _fact(self, said: Message, people: People) -> Fact:
        subject, attribute, value, *until = (part.strip() for part in said.content.split("|"))
        about = {"we": "organization", "you": "agent"}.get(
            subject, "person" if subject in people.names else "speaker"
        )
        return fact(
            f"{subject}: {attribute} {value}.",
            subject,
            attribute,
            value,
            about=about,
            confidence=0.7,
            message_ids=(said.id,),
            holds_until=datetime.fromisoformat(until[0]) if until else None,
        )


class Talk:
    """People who say something every few hours, each time a session of its own."""

    def __init__(
        self, database: Database, rules: SessionPolicy = SESSION_POLICY, policy: Policy = POLICY
    ) -> None:
        self.database, self.rules, self.policy = database, rules, policy
        self.reading: Any = Reading()

    def say(self, hour: int, content: str, *, chat: ChatIn = GROUP, who: str = "Ann", **fields: Any) -> None:
        name = fields.pop("name", who)
        identity = fields.pop("id", f"{chat.chat_id}-{hour}")
        sender = {"sender_id": f"test:{who.lower()}", "sender_name": name}
        said = message(60 * hour, content, id=identity, **(sender | fields))
        accept.accept(self.database, TENANT, chat, [said])

    def learn(self) -> None:
        place(self.database, self.rules, self.policy)
        learning = learner(self.database, Learning(extractor=self.reading, rules=Reading()))
        for _ in range(3):
            run(self.database, "extract", learning, self.policy)
            embed_all(self.database, DeterministicEmbedder(), self.policy)

    def known(self, which: str = "true") -> list[tuple[Any, ...]]:
        """Memories that nothing supersedes, with their owner."""
        return rows(
            self.database,
            f"""SELECT coalesce(user_id, agent_id, scope), content FROM memories m WHERE {which} AND NOT EXISTS (
                SELECT 1 FROM memory_supersessions s WHERE s.memory_id = m.id) ORDER BY 1, 2""",
        )

    def all(self) -> list[Any]:
        return [
            row[0] for row in rows(self.database, "SELECT content FROM memories ORDER BY said_at, content")
        ]


PARTNER = "Ann and Lena are a couple. | Ann | partner | lena"
HOME = "Lena wohnt in Köln. | Lena | home | köln"
EMPLOYER = "王芳在里斯本银行工作。 | 王芳 | employer | 里斯本银行"
OFFICE = "We have an office in Köln. | we | office | köln"
SECRET = "Ann will marry in Vienna. | Ann | wedding | vienna"


def tell(talk: Talk) -> None:
    """A group of three, and what one of them told a bot alone."""
    talk.reading = ToldModel()
    for hour, (who, said) in enumerate(
        [("Lena", "Hello."), ("Ann", PARTNER), ("Lena", HOME), ("Bob", EMPLOYER), ("Bob", OFFICE)]
    ):
        talk.say(3 * hour, said, who=who)
    talk.say(30, SECRET, chat=DIRECT)
    talk.learn()
