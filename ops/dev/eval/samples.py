"""The chats that Backscroll ships with, written for it, and the questions that are asked about them."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from pydantic import BaseModel, ConfigDict, TypeAdapter

from pipeline.platforms import jsonlines
from pipeline.platforms.records import ImportOptions, Record, Times
from schemas.messages import ChatIn, MessageIn

SAMPLES = files("ops") / "local" / "samples"
# A shared flat, a small company's help channel, a developer with a coding agent, and one topic per session.
NAMES = ("harbour_house", "support_desk", "coding_sessions", "classic")
# The kind of questions whose answer is nowhere in the chat.
UNANSWERABLE = "unanswerable"


class SampleQuestion(BaseModel):
    """A question with what a good answer rests on, and what it must not rest on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str
    # such as `decision_reversed`, `paraphrase` or `unanswerable`
    kind: str
    # external ids of the messages that hold the answer as it is in the end; empty when there is none
    evidence: tuple[str, ...]
    # pieces of the evidence, upper and lower case as they are, that a context has to hold
    tokens: tuple[str, ...]
    # pieces of other messages that would lead astray: what was true before, or another topic
    unexpected: tuple[str, ...]
    # for people
    answer: str


@dataclass(frozen=True, kw_only=True)
class SampleChat:
    """One chat with its questions."""

    name: str
    chat: ChatIn
    messages: list[MessageIn]
    cases: list[SampleQuestion]


_CASES = TypeAdapter(list[SampleQuestion])


def samples() -> Iterator[SampleChat]:
    """Every sample that ships, in the order of `NAMES`."""
    for name in NAMES:
        yield read(name, SAMPLES)


def read(name: str, folder: Traversable) -> SampleChat:
    """Read the sample of two files, `NAME.jsonl` and `NAME_questions.json`.

    Raises `ValueError` when a line is broken, a question lacks a field, or there is not exactly one chat.
    """
    chats: list[ChatIn] = []
    messages: list[MessageIn] = []
    lines = (folder / f"{name}.jsonl").read_text("utf-8").splitlines()
    for parsed in jsonlines.parse(lines, ImportOptions()):
        match parsed:
            case ChatIn():
                chats.append(parsed)
            case Record():
                messages.append(parsed.message)
            case Times():
                pass
            case broken:
                raise ValueError(f"{name}.jsonl: {broken}")
    (chat,) = chats
    cases = _CASES.validate_json((folder / f"{name}_questions.json").read_text("utf-8"))
    return SampleChat(name=name, chat=chat, messages=messages, cases=cases)
