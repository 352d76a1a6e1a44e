"""Write the text that is embedded: a short header that says where it comes from, and the content.

The shapes were chosen by the recall of all-MiniLM-L6-v2 alone on three LoCoMo conversations (share of the
evidence among the 10 nearest messages, 495 questions):

    message as embedded                        question as typed    without the people's names
    text                                             28.3 %                  65.5 %
    Ann: text                                        45.8 %                  67.7 %
    participants: Ann / text                         51.9 %                  69.2 %
    group: … | participants: Ann / text              58.4 %                  62.2 %
    group: … | time: … | participants: Ann / text    58.2 %                  61.5 %

A name in the question pulls up short messages in which little else stands than that name ("Thanks, Ann!"), and
every word in a header that all messages share makes them more alike. So a message's header is its speaker, the
question goes without the names of people in the chat (`pipeline.question.parse`), and neither carries the group or the
time; a header of group or people before the question cost 7 to 17 points more. A session, of which there is one
in place of many messages, has the whole header.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from schemas.sessions import Message, Session, Summary

_MAX_PARTICIPANTS = 8
_MAX_TOPICS = 6  # more would take the place of sentences in the 256 word pieces that MiniLM reads
_MAX_VALUE_CHARS = 80


def session_document(session: Session, title: str, summary: Summary) -> str:
    """Write a session: `group: … | time: … to … | participants: … | topics: …`, then its summary.

    `title` is the chat's. Times are UTC, participants the first 8; parts about which nothing is known are left out.
    """
    parts = [
        ("group", _value(title)),
        ("time", f"{_utc(session.started_at)} to {_utc(session.ended_at)}"),
        ("participants", ", ".join(_value(name) for name in session.participants[:_MAX_PARTICIPANTS])),
        ("topics", ", ".join(_value(topic) for topic in summary.topics[:_MAX_TOPICS])),
    ]
    return _document(parts, summary.summary)


def message_document(message: Message) -> str:
    """Write a message: `participants: …` with its speaker, then its text.

    Only the message's own fields, so that no later message changes what was embedded.
    """
    return _document([("participants", _value(message.speaker))], message.content)


def _document(parts: Iterable[tuple[str, str]], text: str) -> str:
    header = " | ".join(f"{name}: {value}" for name, value in parts if value)
    return f"{header}\n{text}" if header else text


def _value(text: str) -> str:
    """Put a name or title on one line, without the header's separator."""
    return " ".join(text.replace("|", " ").split())[:_MAX_VALUE_CHARS]


def _utc(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"
