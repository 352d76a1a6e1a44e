"""Parse a question: the people and times it names, what it asks for, and the text left to search for.

Names of participants and dates say where to look, and are seldom in the messages sought: where they are nothing else,
they leave the searched text and return as preferences.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pipeline.recall.question import names
from pipeline.recall.question.event_mentions import Timed
from pipeline.text import exact_match, truncate
from pipeline.text.accents import LETTERS_AND_DIGITS, either_spelling
from pipeline.text.calendars import calendars_of, spans
from pipeline.text.calendars.moments import dates_in_figures, moments
from pipeline.text.calendars.spans import Span
from pipeline.text.cues import AnswerType, answer_types, common_words, cues_of, plain
from pipeline.text.cues.answer_types import size_of, words_of
from pipeline.text.exact_match import Verbatim
from pipeline.text.languages import LANGUAGES
from pipeline.text.sentences import UNSPACED, is_content, words

_WORD = re.compile(rf"{LETTERS_AND_DIGITS}(?:['’]{LETTERS_AND_DIGITS})?")
# Times of one question that count, the first ones named: each is compared with every candidate.
MAX_SPANS = 16
MAX_TERMS = 32
"""Words of a question that are looked up: each is one more search."""
# A word no longer than this says little.
_SHORT_WORD = 3


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a question asks for, from its words."""

    # as it was asked
    text: str
    # without certain participants' names and without dates: the text that is embedded and looked up
    content: str
    # the named participants, each with their share of a name that several have; empty if all are named
    speakers: Mapping[str, float] = field(default_factory=dict)
    # the names of participants in it, as spelled in their profiles: messages may contain them as well
    names: tuple[str, ...] = ()
    # what it asks for
    asks: frozenset[AnswerType]
    # the languages that it is read in: its own if it differs from the chat's, then the chat's
    language: str
    # whether it asks what was said at all, and whether it does so of times that it names
    asks_for_all: bool = False
    overview: bool = False
    # the times that it names as half-open spans, in order of time
    spans: tuple[Span, ...]
    # the spans that go back to the chat's beginning or up to now: "before March", "since May", "this year"
    open_spans: frozenset[Span] = frozenset()
    # the time relative to an event, once that event is dated
    event: Timed | None = None
    # its quoted phrases
    phrases: tuple[Verbatim, ...] = ()
    # identifiers, addresses, paths and long numbers in it
    identifiers: tuple[Verbatim, ...] = ()

    @property
    def times(self) -> Sequence[Span]:
        """Return the times at which to look: those that it names, and that of its event."""
        return self.spans if self.event is None else [*self.spans, (self.event.start, self.event.end)]

    @property
    def exact(self) -> tuple[Verbatim, ...]:
        """Return all pieces that a message may contain word for word."""
        return self.phrases + self.identifiers


def read(text: str, people: Sequence[str], earliest: datetime, now: datetime, language: str) -> Question:
    """Parse a question in a chat's language or another; `people` are the participants' display names and handles.

    A date without a year means every year from `earliest` to `now`, in the time zone of `now`, from which "yesterday"
    and the like count. A name or date inside quotation marks or an identifier is neither.
    """
    parts = {part.casefold() for person in people for part in (person, *_WORD.findall(person))}
    parts |= {part.lstrip("@") for part in parts}
    language = read_in(text, language, parts)
    exact, content, marked = exact_match.take_out(text, parts | dates_in_figures(text))
    # the words of times that count from now stay: "the camping trip last year" may be called that in the talk
    times, of_nouns, content = spans.times_named(content, earliest, now, language, parts)
    named = names.find(content, people, language)
    content = truncate.blank_out(content, named.sure)
    exact = (exact + exact_match.numbers(content))[: exact_match.MAX_PIECES]
    content = exact_match.put_back(" ".join(content.split()), marked)
    for_all = not exact and asks_for_all(content, language)
    times = [*times, *(of_nouns if for_all else ())][:MAX_SPANS]
    return Question(
        text=text,
        content=content if _WORD.search(content) else text,
        speakers=named.shares if len(named.shares) < len(set(people)) else {},
        names=named.names,
        asks=answer_types.asked(text, language),
        language=language,
        asks_for_all=for_all,
        overview=for_all and any(start < now for start, _ in times),
        spans=tuple(sorted(set(times))),
        open_spans=frozenset(span for span in times if span[0] <= earliest or span[0] <= now <= span[1]),
        phrases=tuple(piece for piece in exact if piece.kind == "phrase"),
        identifiers=tuple(piece for piece in exact if piece.kind != "phrase"),
    )


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
    # when and how many ask for something in it
    return cues.overview.are_in(text) and not is_specific and answer_types.asked(rest, language) <= {"now"}


def _without_times(text: str, language: str) -> str:
    times = moments(text, calendars_of(language))
    places = [(moment.start - moment.before, moment.end + moment.after) for moment in times]
    return " ".join(truncate.blank_out(text, places).split())


def read_languages() -> None:
    """Read the words and calendars of all languages, which the first questions would do otherwise."""
    now = datetime.now(UTC)
    for language in LANGUAGES:
        read("?", (), now, now, language)


def most_specific(text: str, language: str, most: int = MAX_TERMS) -> str:
    """Return a text of at most `most` words: the most specific ones of a longer text, in their order.

    Names, numbers and identifiers come first, then long words; stop words and repeated words are left out.

    >>> most_specific("why does the gateway in Porto answer 502 so slowly", "english", 3)
    'gateway Porto 502'
    """
    pieces: dict[str, tuple[int, float, str]] = {}
    text = either_spelling(text)
    for number, term in enumerate(text.split()):
        for place, piece in enumerate(words(term) if UNSPACED.search(term) else [term]):
            pieces.setdefault(piece.casefold(), (number, place, piece))
    if len(pieces) <= most:
        return text
    best = sorted(pieces.values(), key=lambda entry: (-_weight(entry[2], language), entry[:2]))[:most]
    return " ".join(piece for _, _, piece in sorted(best))


def _weight(word: str, language: str) -> float:
    core = word.strip(".,;:!?()[]{}\"'“”„«»…")
    if not core or not is_content(core, language):
        return 0.0
    marked = any(map(str.isdigit, core)) or not (core.islower() or core == core.lower())
    return 100.0 * marked + min(len(core), 20) + (0.0 if len(core) > _SHORT_WORD else -_SHORT_WORD)


MIN_WORDS, MIN_SHARE, MIN_LEAD = 2, 0.4, 1.5
"""What makes a question one in another language than its chat's: its number of common words of that language, their
share of all words, and their ratio to the common words of the chat's language."""
_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u3400-\u9fff]")
# Characters of Chinese function words that Japanese does not use.
_CHINESE = re.compile("[你吗嗎呢吧么麼这這们們说說谁哪]")


def read_in(text: str, chat_language: str, names: Collection[str] = ()) -> str:
    """Return the languages in which a question is read, its own before those of its chat.

    Its own are those that many more of its words are common words of than of the chat's; `names`, in lower case, are
    words of none.

    >>> read_in("Was hat Ben gestern gesagt?", "english", {"ben"}), read_in("Was it late?", "english")
    ('german+english', 'english')
    """
    plain_text = plain(text)
    of_chat = chat_language.split("+")
    words = [word for word in words_of(plain_text) if word not in names]
    counts: dict[str, float] = {
        language: sum(map(common_words(language).__contains__, words)) for language in LANGUAGES
    }
    if unspaced := _unspaced(plain_text, of_chat):
        counts[unspaced] += size_of(list(filter(UNSPACED.search, words)), plain_text)
    most = max(counts.values())
    needed = max(MIN_WORDS, MIN_SHARE * size_of(words, plain_text))
    if most < needed or any(most < MIN_LEAD * max(counts.get(language, 0), 1) for language in of_chat):
        return chat_language
    return "+".join([*(language for language in LANGUAGES if counts[language] == most), chat_language])


def _unspaced(text: str, of_chat: Collection[str]) -> str | None:
    """Return the language of a text's characters; Han alone may be Japanese in a Japanese chat."""
    if _KANA.search(text):
        return "japanese"
    if not _HAN.search(text):
        return None
    return "chinese" if "japanese" not in of_chat or _CHINESE.search(text) else "japanese"
