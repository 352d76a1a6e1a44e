"""Mark asides, which share a question's words without answering it: questions put to a bot, and empty answers."""

from collections.abc import Collection, Sequence
from itertools import groupby
from operator import attrgetter

from pipeline.recall.ask.questions import Questions
from pipeline.recall.find.candidate import Candidate, QueryMatch
from pipeline.text.cues.addressing import ASKS, called_bots, is_put_to_a_bot, names_of, repeats


def mark(ordered: Sequence[Candidate], questions: Questions) -> list[Candidate]:
    """Mark the asides among candidates, which are in order of session; an aside loses its cosine.

    A question that was answered keeps its words, for the answer after it. If only the log says that it was put to a
    bot, it is no aside.
    """
    language = questions.language
    # in a large chat no candidate may be by the bot
    bots = names_of({c.speaker for c in ordered if c.role == "assistant"}) | called_bots(questions.names)
    names = bots | questions.names
    messages: list[Candidate] = []
    for _, inside in groupby(ordered, key=attrgetter("session")):
        session = list(inside)
        for place, candidate in enumerate(session):
            if candidate.cues.says_nothing:
                messages.append(_as_aside(candidate, keeps_words=False))
                continue
            asks = is_put_to_a_bot(candidate.text, language, bots) or _matches(candidate, questions, names)
            logged = (
                not asks
                and candidate.cues.asks >= ASKS
                and questions.are_logged(candidate.text, candidate.sent_at)
            )
            if not asks and not logged:
                messages.append(candidate)
                continue
            after = session[place + 1] if place + 1 < len(session) else None
            answered = (
                after is not None
                and after.speaker != candidate.speaker
                and not after.cues.says_nothing
                and after.cues.asks < ASKS
            )
            messages.append(candidate if logged and answered else _as_aside(candidate, keeps_words=answered))
    return messages


def _as_aside(candidate: Candidate, *, keeps_words: bool) -> Candidate:
    if keeps_words:
        matches = [other._replace(cosine=None) for other in candidate.others]
        return candidate._replace(aside=True, cosine=None, others=matches)
    matches = [QueryMatch() for _ in candidate.others]
    return candidate._replace(aside=True, cosine=None, terms={}, length=0, others=matches)


def _matches(candidate: Candidate, questions: Questions, names: Collection[str]) -> bool:
    return questions.may_be(candidate.id, candidate.speaker) and repeats(
        candidate.text, questions.itself, questions.language, names
    )
