"""Summarize without a model: quote the most informative sentences, open questions and promises.

Only the day and the speaker are added. Of very long sessions only the beginning of each message is read, and the
summary says so. The same messages in the same chat always give the same summary.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo

from pipeline.enrich.facts import extraction
from pipeline.enrich.summaries import passages
from pipeline.enrich.summaries.passages import MAX_CHARS
from pipeline.enrich.summaries.summary_merging import MAX_ITEMS, continued
from pipeline.text import fencing
from pipeline.text.calendars import calendar
from pipeline.text.cues import addressing, dialogue_acts
from pipeline.text.cues.dialogue_acts import Sentence
from pipeline.text.keyphrases import keyphrases
from pipeline.text.languages import FALLBACK
from pipeline.text.sentences import sentences, spoken, terms, words
from pipeline.text.truncate import shortened
from schemas.sessions import Message, Summary

MAX_TOPICS = 5
_MAX_ITEM_CHARS = 300
_MAX_NAME_CHARS = 60
_PLACEHOLDERS = ("image omitted", "video omitted", "audio omitted", "sticker omitted")


def summarize(
    messages: Sequence[Message],
    previous: Summary | None = None,
    *,
    earlier: Sequence[tuple[str, str]] = (),
    time_zone: tzinfo = UTC,
    language: str = FALLBACK,
) -> Summary:
    """Summarize messages in order of time, with days in `time_zone`. Raises `ValueError` for no messages.

    `previous` summarizes the session's earlier messages: it gets half the room, and its lists are continued, except for
    questions that these messages answer. `earlier` are speakers and texts of the chat before the session: words that
    occur there as well say little about it.
    """
    if not messages:
        raise ValueError("there are no messages to summarize")
    chars = extraction.chars_of_each([message.content for message in messages])
    readable = _readable(messages, chars, language)
    talk = _sentences(readable, language)
    phrases = keyphrases(
        [message.content for message in readable],
        [text for _, text in earlier],
        {speaker for speaker, _ in earlier}.union(message.speaker for message in readable),
        language,
        limit=MAX_TOPICS,
    )
    # A request is a task even if it is phrased as a question.
    factors = {i: passages.PROMISE for i, sentence in enumerate(talk) if dialogue_acts.promises(sentence)}
    open_at = [i for i in range(len(talk)) if i not in factors and dialogue_acts.stays_open(i, talk)]
    room = MAX_CHARS // (2 if previous else 1)
    chosen = passages.choose(passages.split(talk, factors), phrases.weights, room)
    day = _day(messages, time_zone, language)
    if chars < extraction.MAX_MESSAGE_CHARS:
        day += f" (the first {chars} characters of each message)"
    new = Summary(
        summary="\n".join([day, *(f"{passage.speaker}: {passage.text}" for passage in chosen)]),
        topics=phrases.topics,
        open_questions=_items(talk[i] for i in open_at),
        action_items=_items(talk[i] for i in factors),
    )
    return new if previous is None else continued(previous, new, talk, language)


def _readable(messages: Sequence[Message], chars: int, language: str) -> list[Message]:
    """Return the messages of people and agents without asides; all messages, if that leaves none."""
    bots = addressing.names_of({message.speaker for message in messages if message.role == "assistant"})
    written = [message._replace(content=spoken(message.content[:chars])) for message in messages]
    readable = [
        message
        for message in written
        if message.role in ("user", "assistant")
        and message.content.lower() not in ("", *_PLACEHOLDERS)
        and not addressing.is_put_to_a_bot(message.content, language, bots)
        and not addressing.says_nothing(message.content, language, of_a_bot=message.role == "assistant")
    ]
    return readable or written


def _sentences(messages: Sequence[Message], language: str) -> list[Sentence]:
    position = {message.external_id: index for index, message in enumerate(messages)}
    talk = []
    for index, message in enumerate(messages):
        reply_to = message.reply_to or message.metadata.get("reply_to")
        for text in sentences(message.content):
            written = tuple(words(text))
            talk.append(
                Sentence(
                    message=index,
                    speaker=fencing.name(message.speaker)[:_MAX_NAME_CHARS],
                    text=" ".join(text.split()),
                    words=written,
                    terms=terms(written, language),
                    language=language,
                    answers=position.get(str(reply_to)),
                )
            )
    return talk


def _day(messages: Sequence[Message], time_zone: tzinfo, language: str) -> str:
    first, last = (messages[i].sent_at.astimezone(time_zone).date() for i in (0, -1))
    written = calendar.written(first, language)
    between = " to " if language == "english" else " – "
    return written if first == last else f"{written}{between}{calendar.written(last, language)}"


def _items(listed: Iterable[Sentence]) -> list[str]:
    """Return sentences as items with their speaker; only the last ones, if there are too many."""
    texts = (f"{sentence.speaker}: {sentence.text}" for sentence in listed)
    return list(dict.fromkeys(shortened(text, _MAX_ITEM_CHARS) for text in texts))[-MAX_ITEMS:]
