"""One chat of a large group over a year: the talk of sample chats, and everyday talk made up around it."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.resources.abc import Traversable

from ops.dev.eval import group_talk, samples
from ops.dev.eval.group_talk import Member
from ops.dev.eval.samples import CHATS, SampleChat
from schemas.messages import ChatIn, MessageIn

SCENES = "group_scenes"
YEAR = timedelta(days=365)
# Who has the name of somebody of an earlier part gets that of the own part behind it: `Will (band)`.
PARTS: Mapping[str, str] = {
    "held_village_en": "village",
    "held_desk_en": "IT",
    "held_band_en": "band",
    SCENES: "new",
    "fit_club_en": "rowing",
    "harbour_house": "flat",
}
"""The chats that become one group, with what is put behind the names that clash. All are from one year, 2026."""
# Who is one person in several parts.
_SAME_PEOPLE: Mapping[str, str] = {SCENES: "held_village_en"}


@dataclass(frozen=True, kw_only=True)
class Group:
    """The group's chat, and of each part its messages and questions as they are in the group, by name."""

    chat: ChatIn
    messages: list[MessageIn]
    parts: dict[str, SampleChat]

    @property
    def people(self) -> int:
        return len({message.sender_id for message in self.messages})


def read(name: str, folder: Traversable = CHATS) -> SampleChat:
    """Read a part: the scenes, which are written for the group, or a chat of the catalogue."""
    if name == SCENES:
        return samples.read(name, group_talk.TALK)
    return samples.read_chat(name, folder)


def build(chats: Sequence[SampleChat], messages: int, seed: int = 1) -> Group:
    """Put sample chats into one group of this many messages, made up where they do not suffice.

    Times stay as they are: dates in the texts and in the questions are still right. The last message of the samples is
    the group's last. Made-up talk lies between theirs and holds no piece of an answer.
    """
    names: dict[str, str] = {}
    parts = {sample.name: _moved(sample, names) for sample in chats}
    sampled = sorted((m for part in parts.values() for m in part.messages), key=lambda m: m.sent_at)
    last = sampled[-1].sent_at
    times = [message.sent_at for message in sampled]
    cases = [case for part in parts.values() for case in part.cases]
    talk = group_talk.talk(
        seed,
        max(messages - len(sampled), 0),
        _members(sampled),
        min(last - YEAR, times[0]),
        last,
        without=sorted({piece for case in cases for piece in (*case.tokens, *case.unexpected)}),
        is_free=lambda begin, end: bisect_left(times, begin) == bisect_left(times, end),
    )
    first = chats[0].chat
    return Group(
        chat=first.model_copy(update={"chat_id": "sample:group", "title": "Everybody"}),
        messages=sorted([*sampled, *talk], key=lambda m: m.sent_at),
        parts=parts,
    )


def _moved(sample: SampleChat, names: dict[str, str]) -> SampleChat:
    """Return a sample with ids and names of its own; `names` maps those taken to the id of who has them."""
    family = _SAME_PEOPLE.get(sample.name, sample.name)

    def renamed(message: MessageIn) -> MessageIn:
        sender = f"{family}:{message.sender_id}"
        name = message.sender_name
        if names.setdefault(name.casefold(), sender) != sender:
            name = f"{name} ({PARTS.get(sample.name, sample.name)})"
        changed = {
            "external_id": own_id(sample.name, message.external_id),
            "sender_id": sender,
            "sender_name": name,
            "reply_to": message.reply_to and own_id(sample.name, message.reply_to),
        }
        return message.model_copy(update=changed)

    cases = [
        case.model_copy(update={"evidence": tuple(own_id(sample.name, id_) for id_ in case.evidence)})
        for case in sample.cases
    ]
    return replace(sample, messages=list(map(renamed, sample.messages)), cases=cases)


def own_id(part: str, external_id: str) -> str:
    """Return a message's id in the group."""
    return f"{part}:{external_id}"


def _members(messages: Sequence[MessageIn]) -> list[Member]:
    """Return everybody who talks, except for bots, by id."""
    people = {message.sender_id: message.sender_name for message in messages if message.role == "user"}
    return [Member(sender, name) for sender, name in sorted(people.items()) if name]
