"""A question as part of a conversation: what completes a follow-up, and which messages are questions put to a bot."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from operator import itemgetter

from pipeline.recall.question.parse import Question
from pipeline.text.cues import answer_types, cues_of, message_cues, plain
from pipeline.text.cues.message_cues import ASKS, said, written_apart
from pipeline.text.sentences import FIRST_UNSPACED, is_content, stem, words
from schemas.sessions import Message

# A follow-up refers to nothing older: this is the gap that ends a session by default.
FOLLOWUP_WINDOW = timedelta(minutes=30)
# Number of latest messages examined.
MAX_MESSAGES_READ = 8
# Maximum number of words taken from them.
MAX_WORDS_ADDED = 12
# A question with more content words than this needs no context, whatever it refers to.
_MOST_CONTENT_WORDS = 2


def is_followup(question: Question) -> bool:
    """Tell whether a question cannot be understood without the messages before it.

    Its wording refers to something else ("what about the other one"), it continues the talk as a fragment ("and the
    plumber?"), it has no content words and names neither people nor a time, or it has few of them and a pronoun.
    """
    cues, text = cues_of(question.language), plain(question.text)
    if cues.alone.are_in(text):
        return True
    content = [word for word in words(question.content) if is_content(word, question.language)]
    # in scripts without spaces two characters make about one word
    size = sum(0.5 if word[0] >= FIRST_UNSPACED else 1 for word in content)
    if size <= _MOST_CONTENT_WORDS:
        # a question about a named person is complete
        elliptic = not (size and question.speakers) and not cues.begins.match(text)
        if elliptic and cues.openers.match(text):
            return True
        if not question.speakers and cues.refers.are_in(plain(question.content)):
            return True
    return not size and not question.speakers and not question.spans


def context_words(
    question: Question, recent: Sequence[Message], now: datetime, people: Iterable[str] = ()
) -> list[str]:
    """Return content words of the latest messages, those of the newest first; `recent` is newest first.

    `people` are the chat's members.

    The question itself and earlier questions to a bot, but the last, are passed over.
    """
    names = message_cues.written_apart(people)
    bots = message_cues.names_of({message.speaker for message in recent if message.role == "assistant"})
    bots |= message_cues.called_bots(names)
    passed, language = False, question.language
    stems = {stem(word) for word in words(question.content)}
    normalized = message_cues.said(question.text, language)
    taken_over: list[str] = []
    for message in recent[:MAX_MESSAGES_READ]:
        if now - message.sent_at > FOLLOWUP_WINDOW:
            break
        if message_cues.said(message.content, language, bots | names) == normalized:
            continue
        content = message.content
        if message_cues.is_put_to_a_bot(content, language, bots):
            if passed:
                continue
            passed, content = True, message_cues.said(content, language, bots)
        for word in words(content):
            if len(taken_over) < MAX_WORDS_ADDED and is_content(word, language) and stem(word) not in stems:
                stems.add(stem(word))
                taken_over.append(word)
    return taken_over


# A bot asks for a context soon after it sees the message.
ABOUT_THEN = timedelta(hours=1)
_TIME = itemgetter(0)


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The current question, and those of the query log."""

    query: str
    # the same, normalized by `said`
    itself: str
    # of the chat
    language: str
    # with their times, oldest first
    logged: Sequence[tuple[datetime, str]] = ()
    # names of several words that a mention may contain, in lower case
    names: frozenset[str] = frozenset()
    # the asker's name; None if nobody is named
    asker: str | None = None
    # the id of the chat's newest message
    newest: int | None = None

    @classmethod
    def of(
        cls,
        query: str,
        language: str,
        log: Iterable[tuple[str, datetime]] = (),
        people: Iterable[str] = (),
        *,
        asker: str | None = None,
        newest: int | None = None,
    ) -> "Questions":
        """Normalize the current question and sort those of the log by time; `people` are the chat's members."""
        return cls(
            query=query,
            itself=said(query, language),
            language=language,
            logged=sorted((at, question) for question, at in log),
            names=written_apart(people),
            asker=asker,
            newest=newest,
        )

    @cached_property
    def asks(self) -> bool:
        """Whether the question asks something in its words."""
        return answer_types.asks(self.query, self.language) >= ASKS

    def may_be(self, message: int, speaker: str) -> bool:
        """Tell whether a message with the question's words is the question, and not something that others say as well.

        It is if they ask something, if the asker said it, or if it is the newest message.
        """
        return self.asks or speaker == self.asker or message == self.newest

    def are_logged(self, text: str, sent_at: datetime) -> bool:
        """Tell whether the log holds a message's question at about its time."""
        first = bisect_left(self.logged, sent_at - ABOUT_THEN, key=_TIME)
        last = bisect_right(self.logged, sent_at + ABOUT_THEN, key=_TIME)
        # most messages are of another time than any question, so only these few are normalized
        about_then = {said(question, self.language) for _, question in self.logged[first:last]}
        return bool(about_then) and said(text, self.language, self.names) in about_then
