"""Recognize WhatsApp's placeholders for what is no text, in the languages of its users.

Phones put these phrases into the export in their own language, so they are listed. A phrase that is not
listed stays what it looks like, a text: nothing is lost by a language that is missing here.
"""

import re
from dataclasses import dataclass

from pipeline.platforms.records import MediaKind, media_kind

LTR = "\u200e"
"""The iPhone puts this mark in front of whatever nobody has typed."""

_EDGE_MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"

_DELETED = re.compile(
    "this message was deleted(?: by admin.*)?|you deleted this message"
    "|diese nachricht wurde gelöscht|du hast diese nachricht gelöscht"
    "|se eliminó este mensaje|este mensaje fue eliminado|eliminaste este mensaje|mensaje eliminado"
    "|mensagem apagada|esta mensagem foi apagada|(?:você apagou|apagou|apagaste) esta mensagem"
    "|ce message a été supprimé|vous avez supprimé ce message"
    "|questo messaggio è stato eliminato|hai eliminato questo messaggio"
    "|dit bericht is verwijderd|(?:u hebt|je hebt) dit bericht verwijderd"
    "|данное сообщение удалено|вы удалили данное сообщение"
    "|bu mesaj silindi|bu mesajı sildiniz"
    "|ta wiadomość została usunięta|usunięto tę wiadomość",
    re.IGNORECASE,
)

_EDITED = re.compile(
    "<(?:this message was edited|diese nachricht wurde bearbeitet"
    "|se editó este mensaje|este mensaje fue editado|mensagem editada|esta mensagem foi editada"
    "|ce message a été modifié|questo messaggio è stato modificato|dit bericht is bewerkt"
    "|сообщение изменено|данное сообщение изменено|bu mesaj düzenlendi|ta wiadomość została edytowana"
    ")\\.?>$",
    re.IGNORECASE,
)

# Android without media says that there was some, not what it was.
_OMITTED = re.compile(
    "<(?:media omitted|medien ausgeschlossen|medien weggelassen|multimedia omitido|archivo omitido"
    "|mídia oculta|arquivo de mídia oculto|ficheiro não revelado|médias omis|fichier omis|media omessi"
    "|media weggelaten|без медиафайлов|medya dahil edilmedi|pominięto multimedia|media dikecualikan"
    "|省略多媒体文件|メディアは含まれていません|미디어 파일을 제외한 내용|तस्वीर या वीडियो नहीं है)>",
    re.IGNORECASE,
)

_ATTACHED_ANDROID = re.compile(
    r"(?P<name>\S.*\.\w{2,5}) \((?:file attached|datei angehängt|archivo adjunto|arquivo anexado"
    r"|ficheiro anexado|fichier joint|file allegato|bestand bijgevoegd|файл добавлен|dosya ekli"
    r"|plik dołączony)\)",
    re.IGNORECASE,
)
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
_OMITTED_IPHONE = re.compile(
    rf"(?:(?P<name>\S.*?\.\w{{2,5}})\s.*?)?(?P<noun>{'|'.join(_NOUNS)}) "
    "(?:omitted|weggelassen|omitid[oa]|ocultad[oa]|absente?|omise?|manquant|omess[oa]|weggelaten"
    "|пропущено|dahil edilmedi)",
    re.IGNORECASE,
)

# On Android a system line is known by having no `Name: `; these are the ones that can hold a colon, because
# they quote what somebody chose: a group's name or description, a number.
_SYSTEM = re.compile(
    "\\b(?:changed (?:the|this) group|changed the subject|changed their phone number"
    "|created (?:the |this )?group|end-to-end|security code changed|pinned a message|started a call"
    "|turned on disappearing|ende-zu-ende|hat (?:den betreff|die gruppe|das gruppenbild)"
    "|cambió (?:el asunto|el nombre|la descripción)|creó (?:el|este) grupo"
    "|(?:mudou|alterou) (?:o assunto|o nome|a descrição)|criou (?:o|este) grupo"
    "|a (?:modifié|changé) (?:le sujet|la description)|a créé le groupe"
    "|ha (?:cambiato l'oggetto|creato il gruppo|modificato la descrizione)"
    "|heeft (?:het onderwerp|de groep)|(?:изменил|создал)\\(?а?\\)? (?:тему|группу|описание|название))",
    re.IGNORECASE,
)

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
    if iphone and (found := _ATTACHED_BEHIND.search(text, max(0, len(text) - _LONGEST_PHRASE))):
        return Said(text=trim(text[: found.start()]), media=(_attachment(found["name"]),), edited=edited)
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
        kind = _NOUNS[found["noun"].lower()]
        return {"kind": kind, "name": trim(found["name"])} if found["name"] else {"kind": kind}
    return None


def _attachment(name: str) -> dict[str, str]:
    return {"kind": media_kind(name), "name": name}
