"""The chats that evaluations read, written for this, and the questions that are asked about them."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from pipeline.platforms import jsonlines
from pipeline.platforms.records import ImportOptions, Record, Times
from schemas.errors import InvalidInput
from schemas.messages import ChatIn, MessageIn

SAMPLES = files("ops") / "local" / "samples"
CHATS = files("ops") / "dev" / "eval" / "chats"
# That ship: a shared flat, a small company's help channel, a developer with a coding agent, one topic per session.
NAMES = ("harbour_house", "support_desk", "coding_sessions", "classic")
# The kind of questions whose answer is nowhere in the chat.
UNANSWERABLE = "unanswerable"

Part = Literal["fit", "held"]


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
    # when it is put to the bot; None: a few minutes after the last message
    asked_at: datetime | None = None


class ChatFacts(BaseModel):
    """What `chats.toml` says of a chat."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: Part
    # such as `direct`, `group of 20` or `support desk`
    kind: str
    language: str
    # the chat that says the same in another language
    translation_of: str | None = None


@dataclass(frozen=True, kw_only=True)
class SampleChat:
    """One chat with its questions."""

    name: str
    chat: ChatIn
    messages: list[MessageIn]
    cases: list[SampleQuestion]


_CASES = TypeAdapter(list[SampleQuestion])


def samples() -> Iterator[SampleChat]:
    """Read every sample that ships, in the order of `NAMES`."""
    return map(read_chat, NAMES)


def catalogue(folder: Traversable = CHATS) -> dict[str, ChatFacts]:
    """Return what is said of each chat, by name, in the order of the file."""
    listed = tomllib.loads((folder / "chats.toml").read_text("utf-8"))
    return {name: ChatFacts.model_validate(facts) for name, facts in listed.items()}


def chosen(
    part: Part | Literal["all"], only: str = "", folder: Traversable = CHATS, *, foreign: bool = False
) -> Iterator[SampleChat]:
    """Read the chats of a part, or one of them; `foreign`: those asked in another language, too, so asked.

    Raises `InvalidInput` for an unknown name.
    """
    known = catalogue(folder)
    if only and only not in known:
        raise InvalidInput(f"there is no chat {only!r}: see {', '.join(known)}", field="only")
    for name, facts in known.items():
        wanted = part in {"all", facts.part} and only in {"", name}
        if wanted and (not foreign or (folder / f"{name}_foreign.json").is_file()):
            yield read_chat(name, folder, foreign=foreign)


def read_chat(name: str, folder: Traversable = CHATS, *, foreign: bool = False) -> SampleChat:
    """Read a chat from the folder, or one that ships, with its questions; `foreign`: in another language.

    Raises `ValueError` when a line is broken, a question lacks a field, or there is not exactly one chat.
    """
    folder = folder if (folder / f"{name}.jsonl").is_file() else SAMPLES
    ((chat, messages),) = read_talk(folder / f"{name}.jsonl")
    questions = folder / f"{name}_{'foreign' if foreign else 'questions'}.json"
    return SampleChat(
        name=name, chat=chat, messages=messages, cases=_CASES.validate_json(questions.read_text("utf-8"))
    )


def read_talk(file: Traversable) -> list[tuple[ChatIn, list[MessageIn]]]:
    """Read the chats of a file in JSON Lines, each with the messages behind it. Raises `ValueError`."""
    chats: list[tuple[ChatIn, list[MessageIn]]] = []
    for parsed in jsonlines.parse(file.read_text("utf-8").splitlines(), ImportOptions()):
        match parsed:
            case ChatIn():
                chats.append((parsed, []))
            case Record():
                chats[-1][1].append(parsed.message)
            case Times():
                pass
            case broken:
                raise ValueError(f"{file.name}: {broken}")
    return chats
