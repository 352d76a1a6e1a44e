"""Tell whether a question asks for an overview of a time ("summarize last week"), and not for something in it."""

from pipeline.text import truncate
from pipeline.text.calendars import calendars_of
from pipeline.text.calendars.moments import moments
from pipeline.text.cues import cues_of, plain
from pipeline.text.cues.answer_types import asked
from pipeline.text.sentences import is_content, words


def asks_for_all(content: str, language: str) -> bool:
    """Tell whether a question asks for all that happened; `content` is its text without names and dates.

    >>> asks_for_all("What did I miss since Monday?", "english"), asks_for_all("Did I miss the bus?", "english")
    (True, False)
    """
    cues = cues_of(language)
    # most questions do not, and their times need not be found again
    if not cues.overview.are_in(plain(content)):
        return False
    text = rest = plain(_without_times(content, language))
    for pattern in (*cues.overview.patterns, *cues.overview_about.patterns):
        rest = pattern.sub(" ", rest)
    is_specific = any(is_content(word, language) for word in words(rest))
    # who, when, where and how many ask for something in it
    return cues.overview.are_in(text) and not is_specific and asked(rest, language) <= {"now"}


def _without_times(text: str, language: str) -> str:
    times = moments(text, calendars_of(language))
    places = [(moment.start - moment.before, moment.end + moment.after) for moment in times]
    return " ".join(truncate.without(text, places).split())
