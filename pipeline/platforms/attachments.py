"""Attachments of a message: their kind, and the text in their place."""

from collections.abc import Iterable
from typing import Any

from pipeline.platforms.records import MediaKind


def attachment(kind: str, name: str) -> dict[str, str]:
    """Return an attachment in the form that metadata stores."""
    return {"kind": kind, "name": name} if name else {"kind": kind}


def files(names: Iterable[object]) -> list[dict[str, str]]:
    """Return attachments by their paths or media types; one with neither is of the kind `media`.

    >>> files(["media/Lease.pdf", "image/jpeg", None])
    [{'kind': 'document', 'name': 'Lease.pdf'}, {'kind': 'image'}, {'kind': 'media'}]
    """
    parts = [(name if isinstance(name, str) else "").rpartition("/") for name in names]
    return [
        attachment(media_kind(file), file)
        if "." in file
        else attachment(above if above in ("image", "video", "audio") else "media", "")
        for above, _, file in parts
    ]


def with_media(text: str, media: Iterable[dict[str, Any]]) -> str:
    """Prefix the text with a word in brackets for each attachment, and a document's name, so that it can be found.

    >>> with_media("look", [{"kind": "image", "name": "IMG-20231231-WA0001.jpg"}])
    '[image] look'
    >>> with_media("", [{"kind": "document", "name": "Lease.pdf"}])
    '[document Lease.pdf]'
    """
    words = [
        f"[document {item['name']}]"
        if item["kind"] == "document" and item.get("name")
        else f"[{item['kind']}]"
        for item in media
    ]
    return " ".join([*words, text]).strip()


_KIND_BY_SUFFIX: dict[str, MediaKind] = {
    **dict.fromkeys(("jpg", "jpeg", "png", "gif", "heic", "bmp", "avif"), "image"),
    "webp": "sticker",
    **dict.fromkeys(("mp4", "mov", "webm", "3gp", "mkv", "avi"), "video"),
    **dict.fromkeys(("opus", "ogg", "oga", "mp3", "m4a", "aac", "wav", "amr", "flac"), "audio"),
    "vcf": "contact",
}


def media_kind(file_name: str) -> MediaKind:
    """Return the kind of media of a file, by its suffix.

    >>> media_kind("PTT-20231231-WA0007.opus"), media_kind("Lease.pdf")
    ('audio', 'document')
    """
    return _KIND_BY_SUFFIX.get(file_name.rpartition(".")[2].lower(), "document")
