"""Split messages into sentences, and find the words that carry meaning."""

import re
from collections.abc import Iterator, Sequence

from pipeline.text.accents import LETTERS, one_spelling
from pipeline.text.calendars import month_names
from pipeline.text.cues import plain, stop_words
from pipeline.text.languages import ANY_LANGUAGE
from schemas.signs import SIGN

FIRST_UNSPACED = "\u0e00"
"""The first character of a script that puts no space between words: a text without any from here on has none."""
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]+"
)
"""A run of Thai, Lao, Burmese, Khmer, kana or Han."""
# After closing punctuation and a space; after an ideographic full stop; at the end of a line.
_END = re.compile("(?<=[.!?\u2026\u061f\u0964])[\"'\u201d\u2019\u00bb)]*\\s+|(?<=[\u3002\uff01\uff1f])|\\n+")
# Not the end of a sentence: abbreviations and initials, of at most this many characters …
_NO_END = re.compile(r"\b(?:mr|mrs|ms|dr|st|sr|sra|prof|no|vs|e\.g|i\.e|etc|approx|ca|[A-Z])\.$", re.I)
_LONGEST_NO_END = len("approx.")
# … the number of a list item …
_ITEM_NUMBER = re.compile(r"\s*\d+\.")
# … and full stops inside a date: `3.` May, `11.12.`, `8 feb.` 12:05.
_DAY = re.compile(r"(?<![\w.,:/])\d{1,2}\.$")
_DAY_AND_MONTH = re.compile(r"(?<![\w.,:/])(?:3[01]|[12]\d|0?[1-9])\.(?:1[0-2]|0?[1-9])\.$")
_SHORT_MONTH = re.compile(r"(?:(?<!\d)\d{1,2}\.? |\b(?=[A-Z]))([^\W\d_]{3,4})\.$")
_LONGEST_OF_DATE = len("30. sept.")
_FIRST_WORD = re.compile(LETTERS)
# A number with its fraction and unit sign, or a run of letters with inner apostrophes and hyphens.
_WORD = re.compile(rf"\d+(?:[.,:]\d+)*|{LETTERS}(?:['\u2019-]{LETTERS})*[0-9]*")
# Interjections of one or two different letters: a letter three times, hmm, haha, ohh, aww, lol, yay, pff, grr, shh.
_SOUND = re.compile(
    r"(.)\1\1|\A(?:[hm]+|[ha]+|[he]+|[hi]+|[ho]+|[hu]+|[ja]+|[je]+|[aw]+|[ew]+|[ow]+|lo+l[lo]*|y+[ae]+y+"
    r"|p+f+|u+f+|[bg]r+|s+h+|(?:ts)+s*|(?:xo)+x?|o+k+|(?:ok)+)\Z"
)
_HIRAGANA = re.compile("[\u3040-\u309f]+")

# Placeholders that importers write for attachments; a document's name was chosen by people and stays.
_MARKER = re.compile(
    r"\[(?:image|photo|video|audio|voice|sticker|animation|gif|media|file|contact|location|poll|dice|call)"
    r"(?: [^\[\]\n]{0,200})?\]|\[document(?P<name> [^\[\]\n]{0,200})?\]|<media omitted>"
    # a poll as WhatsApp writes it, by language
    r"|^(?:poll|umfrage|enquete|encuesta|sondage|sondaggio|peiling|option|opção|opción|opzione|optie):[ \t]*"
    r"|(?<![ \t])[ \t]*+\(\d+ (?:votes?|stimmen?|votos?|voix|voti|voto|stemmen|stem)\)$",
    re.IGNORECASE | re.MULTILINE,
)


def spoken(text: str) -> str:
    """Drop the placeholders of pictures, places, polls and the like.

    >>> spoken("[image] see the rack"), spoken("[document Lease.pdf]"), spoken("OPTION: Sunday (2 votes)")
    ('see the rack', 'Lease.pdf', 'Sunday')
    """
    return _MARKER.sub(lambda match: (match["name"] or "").strip(), text).strip()


def sentences(text: str) -> list[str]:
    """Return the sentences of a message, stripped; code blocks stay whole."""
    return list(_sentences(text))


def _sentences(text: str) -> Iterator[str]:
    start, number = 0, _ITEM_NUMBER.match(text)
    for match in _END.finditer(text):
        end = match.start()
        # only the last word before it is examined: a sentence may be very long
        if "\n" not in match[0] and (
            (number is not None and number.end() == end)
            or _NO_END.search(text, max(start, end - _LONGEST_NO_END), end)
            or (
                match[0].isspace() and _is_in_date(text, max(start, end - _LONGEST_OF_DATE), end, match.end())
            )
        ):
            continue
        sentence, start = text[start : match.end()].strip(), match.end()
        # after only white space the item number is still the same
        if sentence:
            yield sentence
            number = _ITEM_NUMBER.match(text, start)
    if rest := text[start:].strip():
        yield rest


def _is_in_date(text: str, start: int, end: int, after: int) -> bool:
    """Tell whether the full stop at the end of `start` … `end` is inside of a date, and no sentence begins `after` it.

    Only a language's small words are capital at the beginning of a sentence alone: `4.5. Abgabe` may be one date.
    """
    if not text[start : end - 1][-1:].isdigit():
        month = _SHORT_MONTH.search(text, start, end) if text[after : after + 1].isdigit() else None
        return month is not None and month[1].casefold() in month_names(dotted=False)
    word = _FIRST_WORD.match(text, after)
    if _DAY.search(text, start, end):
        return word is not None and (word[0].islower() or word[0].casefold() in month_names(dotted=True))
    if not _DAY_AND_MONTH.search(text, start, end):
        return False
    return not (word and word[0][0].isupper() and plain(word[0]) in stop_words(ANY_LANGUAGE).words)


def words(text: str) -> list[str]:
    """Return the words and numbers as written, in order; scripts without spaces give pairs of characters.

    >>> words("Sr. Amílcar's part: 46,67 €")
    ['Sr', "Amílcar's", 'part', '46,67']
    >>> words("校服费265元")
    ['校服', '服费', '265', '元']
    """
    if text.isascii():
        return _WORD.findall(text)
    pieces = []
    # a number, or a word in Latin letters, may follow without a space
    for word in _WORD.findall(UNSPACED.sub(r" \g<0> ", one_spelling(text))):
        if word[0] >= FIRST_UNSPACED and UNSPACED.fullmatch(word):
            signs = SIGN.findall(word)
            pieces += ["".join(signs[i : i + 2]) for i in range(max(len(signs) - 1, 1))]
        else:
            pieces.append(word)
    return pieces


def pair(first: str, second: str) -> str:
    """Join two pairs of characters that overlap by one, as `words` makes them.

    >>> pair("校服", "服费"), pair("บ้า", "าน")
    ('校服费', 'บ้าน')
    """
    *_, last = SIGN.finditer(second)
    return first + last[0]


def stem(word: str) -> str:
    """Return the form that counts a word's variants together: lower case, no plural, no possessive.

    >>> stem("Dolphins"), stem("Ann's"), stem("parties"), stem("glass")
    ('dolphin', 'ann', 'party', 'glass')
    """
    low = word.lower().replace("\u2019", "'")
    low = low.removesuffix("'s").removesuffix("'")
    if len(low) > 4 and low.isascii():
        if low.endswith("ies"):
            return low[:-3] + "y"
        if low.endswith(("sses", "shes", "ches", "xes")):
            return low[:-2]
        if low.endswith("s") and not low.endswith(("ss", "us", "is")):
            return low[:-1]
    return low


def is_content(word: str, language: str) -> bool:
    """Tell whether a word can say what a conversation in a language is about.

    >>> is_content("hat", "english"), is_content("hat", "german"), is_content("锅炉", "chinese")
    (True, False, True)
    """
    low, stop = plain(word), stop_words(language)
    if low in stop.words or low.removesuffix("'s") in stop.words or stem(low) in stop.words:
        return False
    if low[:1] >= FIRST_UNSPACED and UNSPACED.fullmatch(low):
        # a pair of function characters, or of two stop words
        return not (
            _HIRAGANA.fullmatch(low)
            or any(map(stop.particles.__contains__, low))
            or all(map(stop.words.__contains__, low))
        )
    if low.isascii() and low.isalpha():
        return len(low) > 2 and (len(set(low)) > 2 or not _SOUND.search(low))
    return len(low) > 1 or not low.isascii()


def terms(tokens: Sequence[str], language: str) -> tuple[str, ...]:
    """Return the stems of the words that carry meaning, in order, with repetitions."""
    return tuple(stem(word) for word in tokens if is_content(word, language))
