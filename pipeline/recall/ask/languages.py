"""Choose the languages to read a question in: people ask a bot in German even in an English group."""

import re
from collections.abc import Collection

from pipeline.text.cues import common_words, plain
from pipeline.text.cues.answer_types import words_of
from pipeline.text.languages import LANGUAGES
from pipeline.text.sentences import UNSPACED

MIN_WORDS, MIN_SHARE, MIN_LEAD = 2, 0.4, 1.5
"""What makes a question one in another language than its chat's: its number of common words of that language, their
share of all words, and their ratio to the common words of the chat's language."""
# In scripts without spaces two characters make about one word.
_LETTERS_OF_A_WORD = 2
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
        counts[unspaced] += sum(_size(word) for word in words if UNSPACED.search(word))
    most = max(counts.values())
    needed = max(MIN_WORDS, MIN_SHARE * sum(map(_size, words)))
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


def _size(word: str) -> float:
    return len(word) / _LETTERS_OF_A_WORD if UNSPACED.search(word) else 1
