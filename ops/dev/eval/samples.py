"""The chats that evaluations read, and the questions that are asked about them: our own, and LoCoMo's.

The data set (Maharana et al., Evaluating Very Long-Term Conversational Memory of LLM Agents, 2024; CC BY-NC 4.0)
is read from a folder of the user's and is no part of Backscroll.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

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


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AbsentQuestion(_Written):
    """A question that nobody in the chat ever answered."""

    question: str
    # `written` for this chat, or the chat that it was asked in, of which only the names are others here
    by: str


class Told(_Written):
    """A memory or a passage of a document, and three questions about it."""

    chat: str
    type: Literal["memory", "passage"]
    # the sender whom a memory is about; None: the organization
    about: str | None
    text: str
    # in its words, in others, and one that only shares its person or its topic
    literal: str
    reworded: str
    shared: str


class SampleStatement(_Written):
    """A statement of an organization that a search of memories should find, or not."""

    id: str
    about: str
    text: str


class StatementQuestion(_Written):
    """A question with the statements that help to answer it."""

    query: str
    right: tuple[str, ...]


class RelevanceSample(_Written):
    """All of a part."""

    # by chat
    absent: dict[str, tuple[AbsentQuestion, ...]]
    told: tuple[Told, ...]
    statements: tuple[SampleStatement, ...]
    searches: tuple[StatementQuestion, ...]


def read_relevance_sample(part: Part, folder: Traversable = CHATS) -> RelevanceSample:
    """Read what was written for a part."""
    return RelevanceSample.model_validate_json((folder / f"{part}_relevance.json").read_text("utf-8"))


# The set has `D8:6; D9:17` in one entry, and `D:11:26` and `D30:05` among them.
_ID = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")
# Turns carry no time of their own; the data set's description of this task puts them this far apart.
BETWEEN_TURNS = timedelta(seconds=30)


def read_locomo(path: Path) -> Iterator[SampleChat]:
    """Read every conversation: one in a file, or a list as the set is published. Raises `InvalidInput`."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(f"{path} holds no LoCoMo conversations (*.json)", field="DIR")
    for file in files:
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            for sample in data if isinstance(data, list) else [data]:
                name = str(sample.get("sample_id", file.stem))
                yield _parse(name, {**sample, **sample.get("conversation", {})})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"{file} is not a LoCoMo conversation: {error!r}", field="DIR") from error


def _parse(name: str, data: Mapping[str, Any]) -> SampleChat:
    messages = []
    for key, turns in data.items():
        if not (_SESSION.fullmatch(key) and isinstance(turns, list)):
            continue
        began = datetime.strptime(data[f"{key}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for number, turn in enumerate(turns):
            caption = turn.get("blip_caption")
            messages.append(
                MessageIn(
                    external_id=turn["dia_id"],
                    sender_id=f"locomo:{turn['speaker']}",
                    sender_name=turn["speaker"],
                    content=turn["text"] + (f"\n[picture: {caption}]" if caption else ""),
                    sent_at=began + number * BETWEEN_TURNS,
                )
            )
    chat = ChatIn(
        chat_id=f"locomo:{name}", kind="direct", title=f"{data['speaker_a']} and {data['speaker_b']}"
    )
    texts = {message.external_id: message.content for message in messages}
    return SampleChat(name=name, chat=chat, messages=messages, cases=list(_cases(data["qa"], texts)))


def _cases(questions: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> Iterator[SampleQuestion]:
    """Yield the questions that have evidence; its whole text is what a context has to hold."""
    for question in questions:
        named = {
            f"D{int(session)}:{int(turn)}"
            for entry in question["evidence"]
            for session, turn in _ID.findall(entry)
        }
        if evidence := tuple(sorted(named & texts.keys())):
            yield SampleQuestion(
                question=question["question"],
                kind=str(question["category"]),
                evidence=evidence,
                tokens=tuple(texts[turn] for turn in evidence),
                unexpected=(),
                answer=str(question.get("answer", "")),
            )
