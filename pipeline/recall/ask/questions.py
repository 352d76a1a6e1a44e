"""Recognize the current question and those of the query log among messages."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from operator import itemgetter

from pipeline.text.cues import answer_types
from pipeline.text.cues.addressing import ASKS, said, written_apart

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
        about_then = (question for _, question in self.logged[first:last])
        return first < last and said(text, self.language, self.names) in {
            said(question, self.language) for question in about_then
        }
