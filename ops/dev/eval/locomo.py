"""LoCoMo's conversations as chats with questions, and what is found of their evidence.

The data set (Maharana et al., Evaluating Very Long-Term Conversational Memory of LLM Agents, 2024; CC BY-NC 4.0)
is read from a folder of the user's and is no part of Backscroll.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ops.dev.eval.samples import SampleChat, SampleQuestion
from schemas.errors import InvalidInput
from schemas.messages import ChatIn, MessageIn

# The set has `D8:6; D9:17` in one entry, and `D:11:26` and `D30:05` among them.
_ID = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")
# Turns carry no time of their own; the data set's description of this task puts them this far apart.
BETWEEN_TURNS = timedelta(seconds=30)


def read(path: Path) -> Iterator[SampleChat]:
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
