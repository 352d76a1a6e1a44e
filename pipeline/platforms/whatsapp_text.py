"""Recognize WhatsApp's placeholders for what is no text, which phones export in their own language.

A phrase that is not listed stays text, so a missing language loses nothing.
"""

import re
from dataclasses import dataclass
from importlib.resources import files

from pipeline.platforms.fields import attachment, media_kind
from pipeline.platforms.records import MediaKind

LTR = "\u200e"
"""The iPhone puts this mark in front of whatever nobody has typed."""

_EDGE_MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"

_HEADING = re.compile(r"\[([\w ]+)\]")


def _phrases() -> dict[str, str]:
    """Return the phrases under each `[heading]` of the file as alternatives of one pattern."""
    found: dict[str, list[str]] = {}
    name = ""
    text = (files("pipeline.platforms") / "whatsapp_phrases.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if heading := _HEADING.fullmatch(line):
            name = heading[1]
        elif line and not line.startswith("#"):
            found.setdefault(name, []).append(line)
    return {name: "|".join(alternatives) for name, alternatives in found.items()}


_PHRASES = _phrases()
_DELETED = re.compile(_PHRASES["deleted"], re.IGNORECASE)
_EDITED = re.compile(rf"<(?:{_PHRASES['edited']})\.?>$", re.IGNORECASE)
_OMITTED = re.compile(f"<(?:{_PHRASES['omitted']})>", re.IGNORECASE)
_ATTACHED_ANDROID = re.compile(rf"(?P<name>\S.*\.\w{{2,5}}) \((?:{_PHRASES['attached']})\)", re.IGNORECASE)
# `<attached: 00000012-PHOTO-2023-12-31-21-41-07.jpg>` in any language: only the iPhone writes it so
_ATTACHED_IPHONE = re.compile(r"<[^:<>]{3,25}:\s?(?P<name>\S[^<>]*\.\w{2,5})>")
_ATTACHED_BEHIND = re.compile(rf"{LTR}{_ATTACHED_IPHONE.pattern}$")

_NOUNS: dict[str, MediaKind] = {
    **dict.fromkeys(("image", "bild", "imagen", "imagem", "immagine", "afbeelding"), "image"),
    **dict.fromkeys(("изображение", "görüntü", "gif"), "image"),
    **dict.fromkeys(("video", "vídeo", "vidéo", "видео", "video note", "videonotiz"), "video"),
    **dict.fromkeys(("audio", "áudio", "аудио", "ses"), "audio"),
    **dict.fromkeys(("sticker", "figurinha", "стикер", "çıkartma"), "sticker"),
    **dict.fromkeys(("document", "dokument", "documento", "документ", "belge"), "document"),
    **dict.fromkeys(("contact card", "kontaktkarte", "tarjeta de contacto", "fiche contact"), "contact"),
}
_OMITTED_NOUN = (
    rf"(?P<noun>{'|'.join(_NOUNS)}) "
    "(?:omitted|weggelassen|omitid[oa]|ocultad[oa]|absente?|omise?|manquant|omess[oa]|weggelaten"
    "|пропущено|dahil edilmedi)"
)
_OMITTED_IPHONE = re.compile(rf"(?:(?P<name>\S.*?\.\w{{2,5}})\s.*?)?{_OMITTED_NOUN}", re.IGNORECASE)
_OMITTED_BEHIND = re.compile(rf"{LTR}{_OMITTED_NOUN}$", re.IGNORECASE)

# On Android a system line has no `Name: `, but these may hold a colon.
_SYSTEM = re.compile(rf"\b(?:{_PHRASES['system']})", re.IGNORECASE)
# Placeholders are short, file names within them too; a text of 64 KB is not searched for them.
_LONGEST_PHRASE = 400

_PHONE = re.compile(r"\+[\d\s().\-]{6,25}")


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a message's text turned out to be."""

    # what was typed, or the caption of what was sent
    text: str
    # [{"kind": …, "name": …}] as far as the export tells
    media: tuple[dict[str, str], ...] = ()
    edited: bool = False
    deleted: bool = False
    # something that was shown once, or of a kind that is not exported: `null` stands in its place
    withheld: bool = False
    system: bool = False


def trim(text: str) -> str:
    """Strip invisible marks and blanks."""
    return text.strip(_EDGE_MARKS + " \t\r\n\u00a0\u202f")


def quotes_a_colon(before_colon: str) -> bool:
    """Tell whether the part before the first `: ` is WhatsApp's own sentence and not a name."""
    return _SYSTEM.search(before_colon, 0, _LONGEST_PHRASE) is not None


def sender_name(raw: str) -> str:
    """Strip marks from a name, and the `~` before people who are no contacts."""
    return trim(trim(raw).removeprefix("~"))


def sender_id(name: str) -> str:
    """Return `whatsapp:` and the name; for a phone number its digits, as WhatsApp's own id.

    >>> sender_id("Ana Lima"), sender_id("+49 170 1234567")
    ('whatsapp:Ana Lima', 'whatsapp:491701234567')
    """
    if _PHONE.fullmatch(name):
        return "whatsapp:" + "".join(character for character in name if character.isdigit())
    return f"whatsapp:{name}"


def read_text(raw: str, *, iphone: bool) -> Said:
    """Interpret a whole message text."""
    marked = iphone and raw.startswith(LTR)
    text = trim(raw)
    tail = _EDITED.search(text, max(0, len(text) - _LONGEST_PHRASE))
    edited = tail is not None
    if tail is not None:
        text = trim(text[: tail.start()])
    if _DELETED.fullmatch(text.rstrip(".")):
        return Said(text="", deleted=True)
    if text == "null":
        return Said(text="", withheld=True)
    # the placeholder stands on the first line with the caption below, or on the last with the caption above
    before, _, last = text.rpartition("\n")
    first, _, after = text.partition("\n")
    for line, caption in ((trim(first), trim(after)), (trim(last), trim(before))):
        if (media := _media(line, iphone=iphone)) is not None:
            return Said(text=caption, media=(media,), edited=edited)
    # the iPhone can put the attachment behind the caption, on one line
    end = max(0, len(text) - _LONGEST_PHRASE)
    if iphone and (found := _ATTACHED_BEHIND.search(text, end)):
        return Said(text=trim(text[: found.start()]), media=(_attachment(found["name"]),), edited=edited)
    if iphone and (found := _OMITTED_BEHIND.search(text, end)):
        sent = attachment(_NOUNS[found["noun"].lower()], "")
        return Said(text=trim(text[: found.start()]), media=(sent,), edited=edited)
    # Polls have several lines and places a link; every other marked text is WhatsApp's own sentence.
    system = marked and "\n" not in text and "https://" not in text
    return Said(text=text.replace(LTR, "") if iphone else text, edited=edited, system=system)


def _media(line: str, *, iphone: bool) -> dict[str, str] | None:
    if len(line) > _LONGEST_PHRASE:
        return None
    if _OMITTED.fullmatch(line):
        return {"kind": "media"}
    if found := _ATTACHED_ANDROID.fullmatch(line):
        return _attachment(trim(found["name"]))
    if iphone and (found := _ATTACHED_IPHONE.fullmatch(line)):
        return _attachment(trim(found["name"]))
    if iphone and (found := _OMITTED_IPHONE.fullmatch(line.replace(LTR, ""))):
        return attachment(_NOUNS[found["noun"].lower()], trim(found["name"] or ""))
    return None


def _attachment(name: str) -> dict[str, str]:
    return {"kind": media_kind(name), "name": name}
