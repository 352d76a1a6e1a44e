"""Extract what ranking needs from a message's text once: whether it asks, is put to a bot, or says nothing."""

import re
from collections.abc import Collection, Iterable
from math import ceil
from typing import NamedTuple, Self

from pipeline.text.accents import AROUND, LETTERS_AND_DIGITS
from pipeline.text.cues import answer_types, cues_of, plain

# A message of which this share asks loses only its question as an aside.
ASKS = 0.8

_HANDLE = r"@[\w.-]*\w"
# At the beginning, perhaps after a greeting: a mention, a command to a bot, or a name with a comma or colon after it.
_GREETED = re.compile(r"[^\w@/!]*(?P<greeting>[^\W\d_]{1,20})[\s,，、]+")
_OPENING = re.compile(
    rf"[^\w@/!]*"
    rf"(?P<name>{_HANDLE}|[/!][a-z]\w*(?:@\w+)?(?=\s)"
    rf"|[^\W\d_][\w{AROUND} .'’-]{{0,40}}?(?=[,:]\s|[，：、]))[\s,:，：、]*",
    re.IGNORECASE,
)
_CLOSING = re.compile(rf"(?<![\s,])[\s,]++(?P<name>{_HANDLE})[^\w@]*$")
_LONGEST_NAME = 100
# Without one of these characters a text does not begin with a name.
_NAMES = re.compile("[/!,:，：、]")
_COMMAND = re.compile(r"[/!][a-z]", re.IGNORECASE)
# Removed from names before they are compared.
_SEPARATORS = str.maketrans("", "", " .'\u2019-_")
_WORD = re.compile(rf"{LETTERS_AND_DIGITS}(?:['’_]{LETTERS_AND_DIGITS})*")
_NOT_IN_A_NAME = re.compile(r"[\W_]")

# Words that may follow in such an answer: a bot repeats the question, a person goes on to say something.
_MORE_OF_A_BOT, _MORE_OF_PEOPLE = 14, 1
# A longer message says something.
_LONGEST_OF_NOTHING = 200


def said(text: str, language: str, bots: Collection[str] = ()) -> str:
    """Return a text's words in lower case, without a mention or a bot's name (of `bots`, in lower case) at either end.

    >>> said("@tripbot When is my  flight", "english"), said("Bot, when is my flight?!", "english")
    ('when is my flight', 'when is my flight')
    """
    rest = _unaddressed(text, language, bots, any_mention=True)
    return _words(text if rest is None else rest) or _words(text) or text.strip()


def repeats(text: str, question: str, language: str, bots: Collection[str] = ()) -> bool:
    """Tell whether a text says nothing but a question, which is as `said` returns it.

    >>> repeats("@tripbot Wo ist die Straße?", "wo ist die straße", "german")
    True
    """
    # a much longer text, or one without the question's last word, cannot repeat it and need not be parsed
    if len(text) > 2 * len(question) + 80 or question.rpartition(" ")[2] not in plain(text):
        return False
    return said(text, language, bots) == question


def is_put_to_a_bot(text: str, language: str, bots: Collection[str] = ()) -> bool:
    """Tell whether a text asks a question of a bot that it names at either end, rather than informs it.

    >>> is_put_to_a_bot("@harbourbot who found the key?", "english")
    True
    >>> is_put_to_a_bot("@harbourbot the boat is on Sunday now", "english")
    False
    """
    rest = _unaddressed(text, language, bots, any_mention=False)
    return rest is not None and answer_types.asks(rest, language) >= ASKS


def says_nothing(text: str, language: str, *, of_a_bot: bool) -> bool:
    """Tell whether an answer only says that it has no answer.

    >>> says_nothing("I don't know who found the key.", "english", of_a_bot=True)
    True
    >>> says_nothing("I don't know, but Olek has a key.", "english", of_a_bot=True)
    False
    """
    if len(text) > _LONGEST_OF_NOTHING:
        return False
    return 0 <= _words_after(text, language) <= (_MORE_OF_A_BOT if of_a_bot else _MORE_OF_PEOPLE)


def _words_after(text: str, language: str) -> int:
    """Count the words after a phrase that says nothing; -1 without such a phrase, or if the rest says something."""
    cues, plain_text = cues_of(language), _words(text)
    for regex in cues.says_nothing:
        if match := regex.fullmatch(plain_text):
            more = match["more"]
            words = answer_types.words_of(more)
            if cues.but.are_in(words, more) or any(map(str.isdigit, more)):
                return -1
            return ceil(answer_types.size_of(words, more))
    return -1


def names_of(bots: Iterable[str]) -> frozenset[str]:
    """Return the bots' names, as displayed and as a mention writes them."""
    folded = {name.casefold() for name in bots}
    return frozenset(folded | {_bare(name) for name in folded})


def written_apart(people: Iterable[str]) -> frozenset[str]:
    """Return the names of several words, in lower case: a mention of them contains spaces.

    >>> sorted(written_apart(["Harbour Bot", "Ana"]))
    ['harbour bot']
    """
    return frozenset(name.casefold() for name in people if " " in name.strip())


def called_bots(names: Iterable[str]) -> frozenset[str]:
    """Return the names that end in `bot`.

    >>> sorted(called_bots(["harbour bot", "rose t"]))
    ['harbour bot']
    """
    return frozenset(name for name in names if name.endswith("bot"))


def _unaddressed(text: str, language: str, bots: Collection[str], *, any_mention: bool) -> str | None:
    """Return the text without the mention or name at its beginning or end; None if it has neither."""
    if "@" not in text and not _may_name_a_bot(text[:_LONGEST_NAME], bots):
        return None
    start = text.lstrip()[: _LONGEST_NAME + 1].casefold()
    if start.startswith("@"):
        # it may be of several words
        for length in range(len(start), 1, -1):
            if start[1:length] in bots:
                return text.lstrip()[length:]
    greeted = _GREETED.match(text)
    if greeted is not None and plain(greeted["greeting"]) not in cues_of(language).greetings:
        greeted = None
    match = _OPENING.match(text, greeted.end() if greeted else 0)
    if match is not None and _is_bot(match["name"], bots, any_mention=any_mention):
        return text[match.end() :]
    if "@" not in text:
        return None
    end = text[-_LONGEST_NAME:]
    match = _CLOSING.search(end)
    if match is not None and _is_bot(match["name"], bots, any_mention=any_mention):
        return text[: len(text) - len(end) + match.start()]
    return None


def _may_name_a_bot(start: str, bots: Collection[str]) -> bool:
    """Tell whether the start of a text may be a command or name a bot; other texts need not be parsed."""
    if not _NAMES.search(start):
        return False
    if _COMMAND.search(start):
        return True
    low = start.translate(_SEPARATORS).casefold()
    return "bot" in low or any(name in low for name in bots)


def _is_bot(name: str, bots: Collection[str], *, any_mention: bool) -> bool:
    if name[0] in "/!" or (name[0] == "@" and any_mention):
        return True
    bare = _bare(name.casefold())
    return bare in bots or (bare.endswith("bot") if name[0] == "@" else bare == "bot")


def _bare(name: str) -> str:
    return _NOT_IN_A_NAME.sub("", name)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(plain(text)))


LONGEST_READ = 4_000
"""Characters read of a message: placing keeps its chats locked while it reads up to 500 messages."""


class MessageCues(NamedTuple):
    """Cues in the text of one message."""

    # the share of it that asks
    asks: float
    has_time: bool
    has_number: bool
    # it only says that it has no answer
    says_nothing: bool

    @property
    def flags(self) -> int:
        """The cues as bits, as they are stored: a new one is added at the end.

        The third bit, set by earlier versions, no longer has a meaning.
        """
        return self.has_time | self.has_number << 1 | self.says_nothing << 3

    @classmethod
    def stored(cls, asks: float, flags: int) -> Self:
        """Return what was stored.

        >>> cues = read_cues("we take the 18:30 train then", "english")
        >>> MessageCues.stored(cues.asks, cues.flags) == cues
        True
        """
        return cls(asks, flags & 1 > 0, flags & 2 > 0, flags & 8 > 0)


def read_cues(text: str, language: str, *, of_a_bot: bool = False) -> MessageCues:
    """Return the cues of a message of a chat in this language; a bot says nothing in more words than people do.

    >>> read_cues("ok, we take the 18:30 train then", "english").has_time, read_cues("wann kommst du", "german").asks
    (True, 1.0)
    """
    text = text[:LONGEST_READ]
    plain_text, cues = plain(text), cues_of(language)
    words = answer_types.words_of(plain_text)
    return MessageCues(
        asks=answer_types.share_that_asks(plain_text, cues),
        has_time=answer_types.holds_time(words, plain_text, cues),
        has_number=answer_types.holds_number(words, plain_text, cues),
        says_nothing=says_nothing(text, language, of_a_bot=of_a_bot),
    )


def stored_or_read(
    asks: float | None, flags: int | None, text: str, language: str, *, of_a_bot: bool
) -> MessageCues:
    """Return the stored cues of a message, or read them if there are none, as before it is placed."""
    if asks is None or flags is None:
        return read_cues(text, language, of_a_bot=of_a_bot)
    return MessageCues.stored(asks, flags)
