"""Mark asides, which share a question's words and answer none: questions put to a bot, and answers that say nothing."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter

from pipeline.ranking.model import Candidate, QueryMatch
from pipeline.text import answer_types
from pipeline.text.addressing import ASKS, called_bots, is_put_to_a_bot, names_of, said, written_apart
from pipeline.text.cues import plain

# A bot asks for a context when it has seen the message.
ABOUT_THEN = timedelta(hours=1)
_TIME = itemgetter(0)


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The question at hand, and those of the query log."""

    query: str
    # the same, normalized by `said`
    itself: str
    # of the chat
    language: str
    # with their times, oldest first
    logged: Sequence[tuple[datetime, str]] = ()
    # what may be mentioned with spaces in it, in lower case
    names: frozenset[str] = frozenset()
    # what the asker is called; None: nobody is named
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
        """Normalize the question at hand, beside those of the log with their times; `people` are who is in the chat."""
        return cls(
            query=query,
            itself=said(query, language),
            language=language,
            logged=sorted((at, one) for one, at in log),
            names=written_apart(people),
            asker=asker,
            newest=newest,
        )

    @cached_property
    def asks(self) -> bool:
        """Whether the question asks something in its words."""
        return answer_types.asks(self.query, self.language) >= ASKS

    def may_be(self, candidate: Candidate) -> bool:
        """Tell whether a message that has the question's words is the question, and not what others say as well.

        It is if they ask something, if the asker said it, or if it is the newest message.
        """
        return self.asks or candidate.speaker == self.asker or candidate.id == self.newest

    def are_logged(self, candidate: Candidate) -> bool:
        """Tell whether a message only asks what the log has for about its time."""
        if not self.logged or candidate.cues.asks < ASKS:
            return False
        first = bisect_left(self.logged, candidate.sent_at - ABOUT_THEN, key=_TIME)
        last = bisect_right(self.logged, candidate.sent_at + ABOUT_THEN, key=_TIME)
        # most messages are of another time than any question, so only these few are normalized
        about_then = (one for _, one in self.logged[first:last])
        return first < last and said(candidate.text, self.language, self.names) in {
            said(one, self.language) for one in about_then
        }


def marked(ordered: Sequence[Candidate], asked: Questions) -> list[Candidate]:
    """Mark the asides among candidates, which are in the order of their sessions; an aside has no meaning of its own.

    A question that was answered keeps its words, for the answer after it. If only the log says that it was put to a
    bot, it is no aside.
    """
    language = asked.language
    # of a large chat's candidates none may be the bot's own
    bots = names_of({c.speaker for c in ordered if c.role == "assistant"}) | called_bots(asked.names)
    mentioned = bots | asked.names
    found: list[Candidate] = []
    for _, inside in groupby(ordered, key=attrgetter("session")):
        session = list(inside)
        for place, candidate in enumerate(session):
            if candidate.cues.says_nothing:
                found.append(_aside(candidate, keeps_words=False))
                continue
            asks = is_put_to_a_bot(candidate.text, language, bots) or _is_it(candidate, asked, mentioned)
            logged = not asks and asked.are_logged(candidate)
            if not asks and not logged:
                found.append(candidate)
                continue
            after = session[place + 1] if place + 1 < len(session) else None
            answered = (
                after is not None
                and after.speaker != candidate.speaker
                and not after.cues.says_nothing
                and after.cues.asks < ASKS
            )
            found.append(candidate if logged and answered else _aside(candidate, keeps_words=answered))
    return found


def _aside(candidate: Candidate, *, keeps_words: bool) -> Candidate:
    if keeps_words:
        others = [other._replace(cosine=None) for other in candidate.others]
        return candidate._replace(aside=True, cosine=None, others=others)
    others = [QueryMatch() for _ in candidate.others]
    return candidate._replace(aside=True, cosine=None, terms={}, length=0, others=others)


def _is_it(candidate: Candidate, asked: Questions, names: Collection[str]) -> bool:
    question, text = asked.itself, candidate.text
    # what is much longer is something else, and most lacks its last word: neither need be taken apart
    last = question.rpartition(" ")[2]
    return (
        asked.may_be(candidate)
        and len(text) <= 2 * len(question) + 80
        and last in plain(text)
        and said(text, asked.language, names) == question
    )
