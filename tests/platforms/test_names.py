"""Whoever is known by a name only is somebody of that chat."""

from itertools import combinations

import pytest

from pipeline.platforms.identity import sender_by_name
from schemas.messages import MAX_ID_CHARS

NAMES = ["Анна", "王芳", "سارة", "Zoë 🦊", "Ana/Bo", "Ana%2FBo", "Ana@Müller", "長" * 255, "長" * 254 + "短"]


@pytest.mark.parametrize("platform", ["whatsapp", "messenger", "instagram", "signal"])
def test_no_two_people_of_any_chats_share_an_id(platform: str) -> None:
    chats = [
        f"{platform}:Müller",
        f"{platform}:Müller@Müller",
        f"{platform}:A/B",
        f"{platform}:A%2FB",
        "app:Müller",
        f"{platform}:" + "集" * 240,
    ]
    ids = [sender_by_name(platform, chat, name) for chat in chats for name in NAMES]
    assert all(one != other for one, other in combinations(ids, 2))
    assert all(
        each.startswith(f"{platform}:") and len(each) <= MAX_ID_CHARS and "/" not in each for each in ids
    )
