"""Recognize WhatsApp's placeholders for anything but text, in the phone's own language, and people's ids.

A phrase that is not listed stays text, so a missing language loses nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from pipeline.platforms.fields import attachment, media_kind
from pipeline.platforms.identity import sender_by_name

LTR = "\u200e"
"""The iPhone puts this mark before any text that nobody has typed."""

_EDGE_MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"

_HEADING = re.compile(r"\[(?P<name>\w+)\](?: (?P<fate>kept|counted) as (?P<what>.+))?")

PHRASES: dict[str, list[str]] = {}
_FATES: dict[str, dict[str, str]] = {"kept": {}, "counted": {}}
"""For each placeholder phrase, the attachment it is kept as and the kind it is counted as."""


def _read_phrases() -> None:
    text = (files(__package__) / "whatsapp_phrases.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if heading := _HEADING.fullmatch(line):
            phrases = PHRASES.setdefault(heading["name"], [])
            if heading["fate"]:
                _FATES[heading["fate"]][heading["name"]] = heading["what"]
        elif line and not line.startswith("#"):
            phrases.append(line)


_read_phrases()


def _any(*names: str) -> str:
    return f"(?:{'|'.join(phrase for name in names for phrase in PHRASES[name])})"


_COUNTED = {what: re.compile(_any(name), re.IGNORECASE) for name, what in _FATES["counted"].items()}
# at the beginning of a word, where words are written apart
_WORD = r"(?<![^\W\u3040-\ufaff])"
_KEPT = {what: re.compile(_WORD + _any(name), re.IGNORECASE) for name, what in _FATES["kept"].items()}
_OMISSION = re.compile(_any("omission"), re.IGNORECASE)
# A mark in front tells it from a tag that somebody typed, in any language.
_EDITED = re.compile(rf"(?:<{_any('edited')}\.?>|[{LTR}\u200f]<[^<>:]{{4,60}}>)$", re.IGNORECASE)
_ATTACHED_ANDROID = re.compile(rf"(?P<name>\S.*\.\w{{2,5}}) \({_any('attached')}\)", re.IGNORECASE)
# `<attached: 00000012-PHOTO-2023-12-31-21-41-07.jpg>` in any language: only the iPhone writes it so
_ATTACHED_IPHONE = re.compile(r"<[^:<>]{3,25}:\s?(?P<name>\S[^<>]*\.\w{2,5})>")
_ATTACHED_BEHIND = re.compile(rf"{LTR}{_ATTACHED_IPHONE.pattern}$")

_NOUN, _VERB = _any(*_FATES["kept"]), _any("omission")
_OMITTED_IPHONE = re.compile(
    rf"(?:(?P<name>\S.*?\.\w{{2,5}})\s(?:•.*?\s)?)?(?:{_NOUN}\s?{_VERB}|{_VERB}\s?{_NOUN})", re.IGNORECASE
)
_OMITTED_BEHIND = re.compile(rf"{LTR}(?P<placeholder>[^{LTR}\n]{{3,80}})$")

# On Android a system line has no `Name: `, but these may hold a colon.
_SYSTEM = re.compile(r"\b" + _any("system"), re.IGNORECASE)
_GROUP, _COMMUNITY = (re.compile(_WORD + _any(name), re.IGNORECASE) for name in ("group", "community"))
_NOTICE = re.compile(_any("encryption", "notice"), re.IGNORECASE)
ENCRYPTION = re.compile(_any("encryption"), re.IGNORECASE)
"""The notice that begins an iPhone's export, in a group by the group itself."""
_TITLES = [re.compile(form.replace(" ", r"[\s-]+"), re.IGNORECASE) for form in PHRASES["titles"]]
# Placeholders are short, file names within them too; a text of 64 KB is not searched for them.
_LONGEST_PHRASE = 400
_LONGEST_PLACEHOLDER = 80

_COLON = re.compile(rf":(?:\s|[{_EDGE_MARKS}]*$)")
# neither of a time or an address nor in a quoted name
_COLON_WITHOUT_SPACE = re.compile(r"[^:\"“„«「]{1,60}:(?![\d/\s])")
_BLANKS_OF_A_NAME = 4


@dataclass(frozen=True, kw_only=True)
class Content:
    """The interpreted text of a message."""

    # what was typed, or the caption of what was sent
    text: str
    # [{"kind": …, "name": …}] as far as the export tells
    media: tuple[dict[str, str], ...] = ()
    edited: bool = False
    # what it is counted as, if it is not kept
    counted: str | None = None


def trim(text: str) -> str:
    """Strip invisible marks and blanks."""
    return text.strip(_EDGE_MARKS + " \t\r\n\u00a0\u202f")


def title_in(file_name: str) -> str | None:
    """Return the chat's name from the name of an exported file, if it has a form that WhatsApp gives it."""
    forms = _TITLES if len(file_name) <= _LONGEST_PHRASE else []
    return next((trim(match[1]) for form in forms if (match := form.fullmatch(file_name))), None)


def split_sender(line: str, speakers: Mapping[str, int] | None = None) -> tuple[str, str] | None:
    """Return the speaker and the text of a line; None if it has no speaker and so is WhatsApp's own.

    `speakers` counts the lines of each, which tells whose a colon without a space behind it is.

    >>> split_sender("~ Rita: see you: soon"), split_sender('Ana changed the subject to "Trip: Rome"')
    (('Rita', 'see you: soon'), None)
    """
    spaced = _COLON.search(line)
    name, text = (sender_name(line[: spaced.start()]), line[spaced.end() :]) if spaced else ("", "")
    if glued := _COLON_WITHOUT_SPACE.match(line):
        before = sender_name(line[: glued.end() - 1])
        likely = not spaced and before.count(" ") <= _BLANKS_OF_A_NAME
        if likely or (speakers and speakers.get(before, 0) > speakers.get(name, 0)):
            name, text = before, line[glued.end() :]
    sentence = _SYSTEM.search(name, 0, _LONGEST_PHRASE) or (
        name.count(" ") > _BLANKS_OF_A_NAME and _COMMUNITY.search(name) and _GROUP.search(name)
    )
    return None if sentence or not name else (name, text)


def counted_as(text: str) -> str | None:
    """Return the kind of thing that a whole text or system line stands for, if it is not kept."""
    plain = trim(text).rstrip(".。।") if len(text) <= _LONGEST_PHRASE else ""
    return next((what for what, phrases in _COUNTED.items() if phrases.fullmatch(plain)), None)


def same_name(one: str, other: str) -> bool:
    """Compare names by letters and figures, since others may not stand in the name of a file."""
    plain, *rest = ("".join(filter(str.isalnum, name)).casefold() for name in (one, other))
    return one == other or [plain] == rest != [""]


def sender_name(raw: str) -> str:
    """Strip marks from a name, and the `~` before people who are no contacts."""
    return trim(trim(raw).removeprefix("~"))


def read_text(raw: str, *, iphone: bool, sender: str = "") -> Content:
    """Interpret a whole message text."""
    marked = iphone and raw.startswith(LTR)
    text = trim(raw)
    tail = _EDITED.search(text, max(1, len(text) - _LONGEST_PHRASE))
    edited = tail is not None
    if tail is not None:
        text = trim(text[: tail.start()])
    # on Android calls have no sender, so a line with one is a real message about a call
    if (what := counted_as(text)) and (iphone or what != "call"):
        return Content(text="", counted=what)
    # the placeholder stands on the first line with the caption below, or on the last with the caption above
    before, _, last = text.rpartition("\n")
    first, _, after = text.partition("\n")
    for line, caption in ((trim(first), trim(after)), (trim(last), trim(before))):
        if (media := _media(line, iphone=iphone, marked=marked and line == text)) is not None:
            return Content(text=caption, media=(media,), edited=edited)
    # the iPhone can put the attachment behind the caption, on one line
    end = max(0, len(text) - _LONGEST_PHRASE)
    if iphone and (match := _ATTACHED_BEHIND.search(text, end)):
        return Content(text=trim(text[: match.start()]), media=(_attachment(match["name"]),), edited=edited)
    if iphone and (match := _OMITTED_BEHIND.search(text, end)) and (kind := _omitted(match["placeholder"])):
        return Content(text=trim(text[: match.start()]), media=(attachment(kind, ""),), edited=edited)
    # Polls have several lines and places a link; every other marked text is WhatsApp's own sentence.
    if iphone and "\n" not in text and "https://" not in text:
        system = text.startswith(sender or "\n") and _SYSTEM.search(text, len(sender), _LONGEST_PHRASE)
        if marked or system or _NOTICE.match(text[:_LONGEST_PHRASE]):
            return Content(text="", counted="system line")
    return Content(text=text.replace(LTR, "") if iphone else text, edited=edited)


def _omitted(placeholder: str) -> str | None:
    """Return the kind of thing that a placeholder stands for."""
    if _OMISSION.search(placeholder) is None:
        return None
    return next((kind for kind, noun in _KEPT.items() if noun.search(placeholder)), None)


def _media(line: str, *, iphone: bool, marked: bool) -> dict[str, str] | None:
    if len(line) > _LONGEST_PHRASE:
        return None
    if match := _ATTACHED_ANDROID.fullmatch(line) or (_ATTACHED_IPHONE.fullmatch(line) if iphone else None):
        return _attachment(trim(match["name"]))
    plain = line.replace(LTR, "") if iphone else line
    bare = _OMITTED_IPHONE.fullmatch(plain) if iphone else None
    placeholder = len(line) <= _LONGEST_PLACEHOLDER and (marked or (line[0:1] == "<" and line[-1:] == ">"))
    if (bare or placeholder) and (kind := _omitted(plain)):
        return attachment(kind, trim((bare and bare["name"]) or ""))
    return None


def _attachment(name: str) -> dict[str, str]:
    return {"kind": media_kind(name), "name": name}


# With any blanks, dashes, brackets and marks between the figures: phones differ, and so do their versions.
_PHONE = re.compile(r"[+\uff0b]\W*(?:\d\W*){6,15}")


def sender_id(chat_id: str, name: str) -> str:
    """Return the id of who has this name in an export of a chat: a phone number is a person everywhere.

    >>> sender_id("whatsapp:Trip", "+49 170 1234567"), sender_id("whatsapp:Trip", "Ana Lima")
    ('whatsapp:491701234567', 'whatsapp:Ana Lima@Trip')
    """
    return number_id(name) or sender_by_name("whatsapp", chat_id, name)


def number_id(name: str) -> str | None:
    """Return `whatsapp:` and the digits of a phone number, as WhatsApp's own id; None for any other name.

    >>> number_id("+49 170 1234567"), number_id("Ana Lima")
    ('whatsapp:491701234567', None)
    """
    if not _PHONE.fullmatch(name):
        return None
    return "whatsapp:" + "".join(str(int(character)) for character in name if character.isdecimal())
