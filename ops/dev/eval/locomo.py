"""LoCoMo's conversations as messages and questions, and what share of the evidence a context finds.

The data set (Maharana et al., Evaluating Very Long-Term Conversational Memory of LLM Agents, 2024; CC BY-NC 4.0)
is read from a folder of the user's and is no part of Backscroll.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from schemas.errors import InvalidInput
from schemas.messages import ChatIn, MessageIn

# The set has `D8:6; D9:17` in one entry, and `D:11:26` and `D30:05` among them.
_ID = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")
# Turns carry no time of their own; the data set's description of this task puts them this far apart.
BETWEEN_TURNS = timedelta(seconds=30)

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


@dataclass(frozen=True, kw_only=True)
class AskedQuestion:
    """A question with the turns that hold its answer."""

    text: str
    category: int
    # external ids, such as `D3:7`
    evidence: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """One conversation of the set."""

    name: str
    chat: ChatIn
    messages: list[MessageIn]
    questions: list[AskedQuestion]
    # that come with the set, by the session's number
    summaries: Mapping[str, str]


def read(path: Path) -> Iterator[Conversation]:
    """Every conversation of a file or of a folder's files: one in a file, or a list of them as the set is published.

    Raises `InvalidInput` when there is none, or one cannot be read.
    """
    if not path.exists():
        raise InvalidInput(f"there is no {path}", field="DIR")
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(f"{path} holds no LoCoMo conversation (*.json)", field="DIR")
    for file in files:
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            for sample in data if isinstance(data, list) else [data]:
                name = str(sample.get("sample_id", file.stem))
                yield parse(name, {**sample, **sample.get("conversation", {})})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"{file} is not a LoCoMo conversation: {error!r}", field="DIR") from error


def merged(conversations: Sequence[Conversation]) -> Conversation:
    """Return all conversations as one chat, their sessions interleaved by time, with the questions of all."""

    def own(conversation: Conversation, turn: str) -> str:
        return f"{conversation.name}/{turn}"

    messages = [
        message.model_copy(update={"external_id": own(each, message.external_id)})
        for each in conversations
        for message in each.messages
    ]
    return Conversation(
        name="merged",
        chat=ChatIn(chat_id="locomo:merged", kind="group", title="All conversations"),
        messages=sorted(messages, key=lambda message: message.sent_at),
        questions=[
            replace(question, evidence=tuple(own(each, turn) for turn in question.evidence))
            for each in conversations
            for question in each.questions
        ],
        summaries={
            own(each, f"D{number}"): summary
            for each in conversations
            for number, summary in each.summaries.items()
        },
    )


def parse(name: str, data: Mapping[str, Any]) -> Conversation:
    """Read one conversation out of its JSON."""
    messages, summaries = [], {}
    for key, turns in data.items():
        session = _SESSION.fullmatch(key)
        if not (session and isinstance(turns, list)):
            continue
        if summary := data.get(f"{key}_summary", "").strip():
            summaries[session[1]] = summary
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
    known = {message.external_id for message in messages}
    questions = []
    for asked in data["qa"]:
        named = {
            f"D{int(session)}:{int(turn)}"
            for entry in asked["evidence"]
            for session, turn in _ID.findall(entry)
        }
        if evidence := tuple(sorted(named & known)):
            questions.append(
                AskedQuestion(text=asked["question"], category=asked["category"], evidence=evidence)
            )
    chat = ChatIn(
        chat_id=f"locomo:{name}", kind="direct", title=f"{data['speaker_a']} and {data['speaker_b']}"
    )
    return Conversation(name=name, chat=chat, messages=messages, questions=questions, summaries=summaries)
