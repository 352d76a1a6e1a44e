"""Complete a question that leans on earlier ones ("and how old is it?") with content words of the latest messages."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from pipeline.question.parse import Question
from pipeline.text import addressing
from pipeline.text.sentences import is_content, stem, words
from schemas.sessions import Message

# What was said longer ago is not what anybody leans on: the gap that ends a session by default.
JUST_NOW = timedelta(minutes=30)
# So many messages at most are looked at.
LOOKED_AT = 8
# A question with more words of its own than this needs no context, whatever it refers to.
MOST_OWN = 2
_GOES_ON = re.compile(
    r"\W*(?:and|but|so|or|also|then|what about|how about|why not|which one)\b", re.IGNORECASE
)
_REFERS = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|hers|there)\b"
    r"|\b(?:that|this|those|these)(?=\s*+(?:\W*$|[?!.,]|(?:is|was|are|were|did|does|do|one|ones|again|then)\b))",
    re.IGNORECASE,
)


def leans(question: Question) -> bool:
    """Tell whether a question cannot be understood without what was said before it.

    It goes on from it, has no content words and names neither people nor a time, or refers to something and names
    nobody. English; in other languages only a question without content words leans.
    """
    if _GOES_ON.match(question.text):
        return True
    own = [word for word in words(question.content) if is_content(word)]
    if len(own) <= MOST_OWN and not question.speakers and _REFERS.search(question.content):
        return True
    return not own and not question.speakers and not question.spans


def brief(question: Question, recent: Sequence[Message], now: datetime, most: int) -> list[str]:
    """Return up to `most` content words of the latest messages, those of the newest first; `recent` is newest first.

    The question itself and earlier questions to a bot, but the last, are passed over.
    """
    bots = addressing.names_of({message.speaker for message in recent if message.role == "assistant"})
    passed = False
    known = {stem(word) for word in words(question.content)}
    itself = addressing.said(question.text)
    found: list[str] = []
    for message in recent[:LOOKED_AT]:
        if now - message.sent_at > JUST_NOW:
            break
        if addressing.said(message.content) == itself:
            continue
        content = message.content
        if addressing.is_put_to_a_bot(content, bots):
            if passed:
                continue
            passed, content = True, addressing.said(content, bots)
        for word in words(content):
            if len(found) < most and is_content(word) and stem(word) not in known:
                known.add(stem(word))
                found.append(word)
    return found
