"""What is embedded in place of a bare text: a short header that says where it stands, and the text.

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
question goes without the names of people in the chat (who spoke is a column, and ranked as such), and neither
carries the group or the time; a header of group or people before the question cost 7 to 17 points more. A
session, of which there is one in place of many messages, has the whole header.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from schemas.sessions import Message, Session
from schemas.summaries import Summary

_MAX_PARTICIPANTS = 8
_MAX_TOPICS = 6  # more would take the place of sentences in the 256 word pieces that MiniLM reads
_MAX_VALUE_CHARS = 80
_FEWEST_WORDS = 2  # a question of less than this without names keeps them
_SHORTEST_NAME = 3


def session_document(session: Session, title: str, summary: Summary) -> str:
    """A session as it is embedded: `group: … | time: … to … | participants: … | topics: …`, then its summary.

    `title` is the chat's. Times are UTC, participants the first 8; parts about which nothing is known are left out.
    """
    parts = [
        ("group", _value(title)),
        ("time", f"{_utc(session.started_at)} to {_utc(session.ended_at)}"),
        ("participants", ", ".join(_value(name) for name in session.participants[:_MAX_PARTICIPANTS])),
        ("topics", ", ".join(_value(topic) for topic in summary.topics[:_MAX_TOPICS])),
    ]
    return _document(parts, summary.summary)


def message_document(message: Message, title: str = "") -> str:
    """A message as it is embedded: `participants: …` with its speaker, then its text.

    Only the message's own fields, so that no later message changes what was embedded. The chat's `title` is
    taken, but left out by the measurement above.
    """
    return _document([("participants", _value(message.speaker))], message.content)


def query_document(query: str, *, people: Iterable[str] = ()) -> str:
    """A question as it is embedded, against messages and sessions alike: without the names of `people`.

    `people` are the display names of those who speak in the chats searched; a full name and its first word
    both count, as written or in lower case. A question that would have no words left stays as it is.

    >>> query_document("When did Ann's brother visit Ann Lee?", people=["Ann Lee"])
    'When did brother visit?'
    """
    names = {name for person in people for name in (person.strip(), *person.split()[:1]) if name}
    names = {name for name in names if len(name) >= _SHORTEST_NAME}
    forms = sorted({form for name in names for form in (name, name.lower())}, key=len, reverse=True)
    if not forms:
        return query
    # Longest first, so that a full name goes as a whole; with what English hangs onto a name.
    named = re.compile(rf"(?<!\w)@?(?:{'|'.join(map(re.escape, forms))})(?:['\u2019]s)?(?!\w)")
    bare = re.sub(r"\s+(?=[?!.,;:]|\s|$)", "", named.sub("", query)).strip()
    return bare if len(re.findall(r"\w+", bare)) >= _FEWEST_WORDS else query


def _document(parts: Iterable[tuple[str, str]], text: str) -> str:
    header = " | ".join(f"{name}: {value}" for name, value in parts if value)
    return f"{header}\n{text}" if header else text


def _value(text: str) -> str:
    """A name or title on one line, without the header's own separator."""
    return " ".join(text.replace("|", " ").split())[:_MAX_VALUE_CHARS]


def _utc(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"
