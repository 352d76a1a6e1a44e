"""Write a context as messages of a chat model: the system's, recent talk in its roles, and the question. Pure.

What people said is written as in the context's text: the first line of a day under its date, every line with its time
and its speaker. What the assistant said has neither, as a model would imitate them in its answers. No message takes
more tokens than its line in the text and its share of what fences that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import groupby

from pipeline.recall.choose.lines import Wording, head_of
from pipeline.text import fencing, truncate
from pipeline.text.fencing import harmless, visible
from pipeline.text.tokens import Count
from schemas.context import Block, ChatMessage, ContextItem
from schemas.sessions import Message


@dataclass(frozen=True, kw_only=True)
class AskedPrompt:
    """A question as shown to a model."""

    # as it was asked
    query: str
    wording: Wording
    # the asker's name; empty where nobody is named
    asker: str = ""
    # the date and the time on the chat's clock, as a line; empty where there is no room for it
    today: str = ""

    @property
    def question(self) -> str:
        """The question, with its asker.

        >>> from pipeline.recall.choose.lines import wording_of
        >>> AskedPrompt(query="How much did I pay?", wording=wording_of("english"), asker="Ben").question
        'Question, from Ben: How much did I pay?'
        """
        form = self.wording.question_from if self.asker else self.wording.question
        return form.format(asker=self.asker, query=self.query)

    @property
    def text(self) -> str:
        """The question under today's date."""
        return f"{self.today}\n{self.question}" if self.today else self.question


def chat_messages(
    ordered: Sequence[Block],
    recent: Sequence[Message],
    prompt: AskedPrompt,
    zone: tzinfo,
    count: Count,
    *,
    alternate: bool = False,
) -> list[ChatMessage]:
    """Return the blocks as messages, the question last.

    With `alternate` user and assistant take turns, the user first: a run of one role is one message, with the names
    of its speakers, and what the assistant said before anybody else becomes a line of the user's.
    """
    texts = [block.text for block in ordered if block.kind not in {"history", "question"}]
    system = "\n\n".join(filter(None, (*texts, prompt.today)))
    history = next((block for block in ordered if block.kind == "history"), None)
    spoken = list(_spoken(history, recent, prompt, zone, count, alternate=alternate)) if history else []
    if alternate:
        runs = [(role, list(run)) for role, run in groupby(spoken, lambda message: message.role)]
        spoken = [ChatMessage(role=role, content="\n".join(m.content for m in run)) for role, run in runs]
    if alternate and spoken and spoken[-1].role == "user":
        question = f"{spoken.pop().content}\n\n{prompt.question}"
    else:
        question = f"{prompt.asker}: {prompt.query}" if prompt.asker else prompt.query
    first = [ChatMessage(role="system", content=system)] if system else []
    return [*first, *spoken, ChatMessage(role="user", content=question)]


def _spoken(
    history: Block,
    recent: Sequence[Message],
    prompt: AskedPrompt,
    zone: tzinfo,
    count: Count,
    *,
    alternate: bool,
) -> Iterator[ChatMessage]:
    """Return the messages of the history in their roles, oldest first."""
    by_id = {str(message.id): message for message in recent}
    shown = [(item, by_id[item.id], count(item.text)) for item in history.items]
    dates = [prompt.wording.day_heading(message.sent_at.astimezone(zone)) for _, message, _ in shown]
    # the tokens of heading and fence in the text may be spent on line breaks
    spare = history.tokens - sum(map(count, set(dates))) - sum(tokens for _, _, tokens in shown)
    assistants = {message.speaker for _, message, _ in shown if message.role == "assistant"}
    named = alternate and len(assistants) > 1
    under, began = "", not alternate
    for (item, message, tokens), date in zip(shown, dates, strict=True):
        began = began or message.role != "assistant"
        is_answer = message.role == "assistant" and began
        head = head_of(message, message.answered if item.answers else None, zone, prompt.wording)
        body = item.text.removeprefix(head)
        forms = _of_an_assistant(message, body, named=named) if is_answer else _of_people(item, message, body)
        text, used = _fitting(forms, item.text, tokens, tokens + max(spare, 0), count)
        spare -= max(used - tokens, 0)
        if is_answer:
            yield ChatMessage(role="assistant", content=text)
        else:
            yield ChatMessage(role="user", content=text if date == under else f"{date}\n{text}")
            under = date


def _of_an_assistant(message: Message, body: str, *, named: bool) -> tuple[str, str]:
    """Return an assistant's message verbatim and as the text shows it; a cut message stays cut."""
    name = f"{fencing.name(message.speaker)}: " if named else ""
    content = harmless(visible(message.content)) if body == truncate.displayed(message.content) else body
    return name + content, name + body


def _of_people(item: ContextItem, message: Message, body: str) -> tuple[str, str]:
    """Return a line of the text with and without the message's line breaks; a cut message stays cut."""
    if body != truncate.displayed(message.content):
        return item.text, item.text
    return item.text.removesuffix(body) + truncate.in_lines(message.content), item.text


def _fitting(forms: Sequence[str], line: str, tokens: int, room: int, count: Count) -> tuple[str, int]:
    """Return the first of these forms of a message that fits into `room` tokens, or the first one cut; and its tokens.

    `tokens` are those of the message's line in the text, which are not counted again.
    """
    for form in forms:
        used = tokens if form == line else count(form)
        if used <= room:
            return form, used
    return truncate.within_tokens(forms[0], room, count), room
