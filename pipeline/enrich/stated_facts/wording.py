"""Take sentences apart into clauses, and cut what they say to a few words that mean the same anywhere else."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pipeline.enrich.stated_facts.corrections import without_taken_back
from pipeline.enrich.stated_facts.rules import BY_LANGUAGE, CLAUSES, Rule
from pipeline.text import answer_types, fencing
from pipeline.text.sentences import is_content, sentences, spoken, stem, words

_MAX_SENTENCE_CHARS = 400
_MAX_CLAUSES = 12
_MAX_WORDS = {"thing": 6, "list": 6, "place": 5, "proper": 6, "employer": 6, "deed": 14}
_MAX_ITEM_WORDS = 2
_FEWEST_WORDS_OF_A_DECISION = 2
_MAX_ATTRIBUTE_CHARS = 60
_FEWEST_LETTERS = 3
_SHORT_PLURAL = 4  # letters, which `stem` leaves alone
_FEWEST_ITEMS = 3  # where no `and` joins them
_QUOTED = re.compile('["“„«][^"“”„«»\n]{0,300}["”“»]|`[^`\n]{0,300}`|^>.*$', re.MULTILINE)
# also where a copied line begins with its time: `[18:30] Lena: …`
_SPEAKER = re.compile(r"[\W\d]*(?:[ap]\.?m\b\W*)?(?P<name>[^\W\d_][^:\n]{0,39}?)\s?:(?:\s|\Z)", re.IGNORECASE)
_EDGES = re.compile(r"\A[^\w+#]+|(?<=[\w)%€$])[^\w)%€$]+\Z")
_WORD = re.compile(r"[^\W\d_]{2}")
_CAPITAL = re.compile(r"[^\W\d_a-zß-öø-ÿ]")


def stated(content: str, language: str) -> Iterator[str]:
    """Yield the sentences of a message that state something: nothing asked, supposed, quoted or taken back."""
    for plain in without_taken_back(said(content, language), language):
        if (
            _WORD.search(plain)
            and not answer_types.asks(plain, language)
            and not CLAUSES[language]["hedged"].search(plain)
        ):
            yield plain


def own_words(content: str, names: Collection[str], language: str) -> str:
    """Drop what others have written: from a line such as `Lena: …`, of these names, or `she wrote: …` to an empty line.

    >>> own_words("Lena: I am vegan", {"lena"}, "english"), own_words("PS: I am vegan", {"lena"}, "english")
    ('', 'PS: I am vegan')
    """
    kept, theirs = [], False
    for line in content.splitlines():
        speaker = _SPEAKER.match(line)
        if CLAUSES[language]["reported"].search(line) or (speaker and speaker["name"].lower() in names):
            theirs = True
        elif not line.strip():
            theirs = False
        if not theirs:
            kept.append(line)
    return "\n".join(kept)


def said(content: str, language: str) -> Iterator[str]:
    """Yield the sentences of a message in the sender's own words."""
    text = spoken(fencing.without_recalled(fencing.visible(content)))
    text = "\n".join(text.split("```")[::2])
    for sentence in sentences(text):
        plain = " ".join(_QUOTED.sub(" ", sentence).split()).replace("’", "'")[:_MAX_SENTENCE_CHARS]
        if plain:
            yield plain


def clauses(sentence: str, language: str) -> list[str]:
    """Return the sentence from each place at which a clause may begin, also without what only leads in.

    A clause that the words before it deny or doubt is left out.
    """
    patterns = CLAUSES[language]
    found = [sentence]
    while (opening := patterns["opening"].match(found[-1])) and opening.end() and len(found) < _MAX_CLAUSES:
        found.append(found[-1][opening.end() :])
    found += [
        f"{BY_LANGUAGE[language].clauses['i']} {each}" for each in found if patterns["elliptic"].match(each)
    ]
    found += [
        f"{BY_LANGUAGE[language].clauses['my']} {each}" for each in found if patterns["kin"].match(each)
    ]
    for joint in patterns["joint"].finditer(sentence):
        rest = sentence[joint.end() :]
        while (opening := patterns["opening"].match(rest)) and opening.end():
            rest = rest[opening.end() :]
        if patterns["doubted"].search(sentence, 0, len(sentence) - len(rest)):
            continue
        found.append(rest)
        if len(found) >= _MAX_CLAUSES:
            break
    return [clause for clause in dict.fromkeys(found) if clause]


def until_its_end(text: str, rule: Rule, language: str) -> str:
    """Cut what a pattern found where the clause ends."""
    if rule.takes == "verbatim":
        return _EDGES.sub("", text)
    found = CLAUSES[language]["end"].search(text)
    return _EDGES.sub("", text[: found.start()] if found else text)


def objects(text: str, rule: Rule, language: str) -> list[str]:
    """Return the objects that a clause names: of a list each by itself, else only what is before a comma."""
    patterns = CLAUSES[language]
    if rule.takes == "list":
        items = [item.strip() for item in patterns["and"].split(text)]
        if len(items) < _FEWEST_ITEMS and (found := patterns["comma"].search(text)):
            first = text[: found.start()]
            # in `a safe, friendly place` it is in the middle of a phrase
            return [] if patterns["article"].match(" ".join([*first.split()[-2:], ""])) else [first]
        if all(0 < len(item.split()) <= _MAX_ITEM_WORDS for item in items):
            return items
        # of a list of phrases it is not clear where one ends
        return [] if patterns["comma"].search(text) else [text]
    if rule.takes in ("thing", "place", "proper", "employer") and (found := patterns["comma"].search(text)):
        text = text[: found.start()]
    return [_EDGES.sub("", text)]


def is_sound(text: str, rule: Rule, clause: str, language: str) -> bool:
    """Tell whether an object means the same where it was not said: short, and of no word such as `that`."""
    patterns = CLAUSES[language]
    if patterns["unsure"].search(clause):
        return False
    if rule.about == "organization" and rule.takes == "verbatim":
        return is_telling(text, language)
    if rule.takes in ("any", "verbatim", "birthday"):
        return bool(text) or "{object}" not in rule.content
    if not text or len(text.split()) > _MAX_WORDS[rule.takes] or patterns["deictic"].search(text):
        return False
    if rule.takes == "list" and not rule.negated and patterns["none"].match(text):
        return False
    if rule.habit and patterns["situational"].search(text):
        return False
    if rule.takes in ("place", "proper") and not _is_name(text, clause, patterns["article"]):
        return False
    return any(len(word) >= _FEWEST_LETTERS for word in words(text))


def is_denied(said: str, following: str, language: str) -> bool:
    """Tell whether what was read of a clause, or the word after it, denies what the clause says."""
    denied = CLAUSES[language]["denied"]
    return denied.search(said) is not None or denied.match(following.lstrip()) is not None


def is_telling(text: str, language: str) -> bool:
    """Tell whether a decision says enough to be understood later."""
    found = words(text)
    weight = sum(is_content(word, language) for word in found) + sum(
        _CAPITAL.match(word) is not None for word in found[1:]
    )
    return weight >= _FEWEST_WORDS_OF_A_DECISION


def _is_name(text: str, clause: str, article: re.Pattern[str]) -> bool:
    """Tell whether it may be a name: by a capital, or as one or two words of somebody who writes without capitals."""
    if _CAPITAL.search(text):
        return True
    return clause.islower() and len(text.split()) <= _MAX_ITEM_WORDS and article.match(text) is None


def core(text: str, rule: Rule, language: str) -> str:
    """Return what of an object tells it apart: the place of `a flat in Porto`, the nurse of `nurse at Acme`."""
    patterns = CLAUSES[language]
    if rule.takes == "place" and (found := patterns["in"].match(text)):
        return text[found.end() :]
    if rule.takes in ("thing", "list") and (found := patterns["core"].search(text)):
        return text[: found.start()]
    return text


def of_them(text: str, language: str) -> str:
    """Replace the first person by the third.

    >>> of_them("a café with my sister", "english")
    'a café with their sister'
    """
    own: Mapping[str, Any] = BY_LANGUAGE[language].clauses["own"]
    return " ".join(own.get(word.lower(), word) for word in text.split())


def plain(text: str, language: str) -> str:
    """Return the form in which values are compared: lower case, no article before it, no signs.

    >>> plain("The Hague", "english")
    'hague'
    """
    article = CLAUSES[language]["article"]
    text = text.lower()
    while found := article.match(text):
        text = text[found.end() :]
    return " ".join(words(text))[:_MAX_ATTRIBUTE_CHARS].rstrip()


def stems(text: str, language: str) -> str:
    """Return the form in which attributes are compared: that of values, without plurals.

    >>> stems("the green Olives", "english")
    'green olive'
    """
    return " ".join(map(singular, plain(text, language).split()))


def singular(word: str) -> str:
    """Return the stem, also of words as short as `nuts`.

    >>> singular("nuts"), singular("bass")
    ('nut', 'bass')
    """
    form = stem(word)
    short = len(form) == _SHORT_PLURAL and form.endswith("s") and not form.endswith(("ss", "us", "is"))
    return form[:-1] if short else form
