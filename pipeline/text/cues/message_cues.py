"""Extract what ranking needs from a message's text once, so that it can be stored with the message."""

from typing import NamedTuple, Self

from pipeline.text.cues import addressing, answer_types, cues_of, plain

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

        >>> cues = read("we take the 18:30 train then", "english")
        >>> MessageCues.stored(cues.asks, cues.flags) == cues
        True
        """
        return cls(asks, flags & 1 > 0, flags & 2 > 0, flags & 8 > 0)


def read(text: str, language: str, *, of_a_bot: bool = False) -> MessageCues:
    """Return the cues of a message of a chat in this language; a bot says nothing in more words than people do.

    >>> read("ok, we take the 18:30 train then", "english").has_time, read("wann kommst du", "german").asks
    (True, 1.0)
    """
    text = text[:LONGEST_READ]
    plain_text, cues = plain(text), cues_of(language)
    words = answer_types.words_of(plain_text)
    return MessageCues(
        asks=answer_types.share_that_asks(plain_text, cues),
        has_time=answer_types.holds_time(words, plain_text, cues),
        has_number=answer_types.holds_number(words, plain_text, cues),
        says_nothing=addressing.says_nothing(text, language, of_a_bot=of_a_bot),
    )


def stored_or_read(
    asks: float | None, flags: int | None, text: str, language: str, *, of_a_bot: bool
) -> MessageCues:
    """Return the stored cues of a message, or read them if there are none, as before it is placed."""
    if asks is None or flags is None:
        return read(text, language, of_a_bot=of_a_bot)
    return MessageCues.stored(asks, flags)
