"""Two tiny chats to fit on, and one to judge with its translation, as files of a catalogue."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

BEGAN = datetime(2026, 5, 4, 18, 0, tzinfo=UTC)

FLAT = [
    ("Ana", "the boiler shows E41 again"),
    ("Rui", "I called the plumber, he comes on Friday at nine"),
    ("Ana", "great, thanks"),
    ("Rui", "who took the blue bicycle pump?"),
    ("Ana", "me, it is behind the washing machine"),
    ("Rui", "rent is 740 from June on"),
    ("Ana", "haha of course it is"),
    ("Rui", "we said no shoes in the corridor, remember"),
]
OFFICE = [
    ("Mo", "the door code is 8093 now"),
    ("Kim", "the printer on the second floor eats paper"),
    ("Mo", "take the one in the library"),
    ("Kim", "lunch at Pavlos tomorrow?"),
    ("Mo", "yes, table for six at half past twelve"),
    ("Kim", "the projector lamp was replaced on Monday"),
]
BOAT = [
    ("Finn", "the mast is at the sailmaker in Kappeln"),
    ("Lea", "what does the new sail cost?"),
    ("Finn", "1200 with the battens"),
    ("Lea", "I bring soup on Sunday"),
    ("Finn", "my cousin paints the hull"),
    ("Lea", "the engine needs two litres of oil"),
]
BOOT = [
    ("Finn", "der Mast ist beim Segelmacher in Kappeln"),
    ("Lea", "was kostet das neue Segel?"),
    ("Finn", "1200 mit den Latten"),
    ("Lea", "ich bringe am Sonntag Suppe mit"),
    ("Finn", "mein Cousin streicht den Rumpf"),
    ("Lea", "der Motor braucht zwei Liter Öl"),
]
# by chat: language, part, what it translates, messages, questions as (question, kind, evidence, tokens, unexpected)
CHATS: dict[str, tuple[str, str, str | None, list[tuple[str, str]], list[tuple[Any, ...]]]] = {
    "flat": (
        *("english", "fit", None, FLAT),
        [
            ("when does the plumber come?", "when", [2], ["Friday at nine"], ["740"]),
            ("where's the bicycle pump", "reply", [5], ["behind the washing machine"], []),
            ("how much is the rent?", "number", [6], ["740"], []),
            ("what is the cat called?", "unanswerable", [], [], []),
        ],
    ),
    "office": (
        *("english", "fit", None, OFFICE),
        [
            ("door code?", "identifier", [1], ["8093"], []),
            ("which printer works", "fact", [3], ["library"], ["eats paper"]),
            ("when was the projector lamp replaced?", "when", [6], ["Monday"], []),
        ],
    ),
    "boat": (
        *("english", "held", None, BOAT),
        [
            ("where is the mast?", "where", [1], ["Kappeln"], []),
            ("how much is the sail?", "number", [3], ["1200"], []),
            ("what's the dog called?", "unanswerable", [], [], []),
        ],
    ),
    "boot": (
        *("german", "held", "boat", BOOT),
        [
            ("wo ist der Mast?", "where", [1], ["Kappeln"], []),
            ("was kostet das Segel?", "number", [3], ["1200"], []),
            ("wie heißt der Hund?", "unanswerable", [], [], []),
        ],
    ),
}


def write(folder: Path) -> Path:
    """Write the chats with their catalogue."""
    listed = []
    for name, (language, part, original, said, asked) in CHATS.items():
        chat = {"type": "chat", "chat_id": f"tiny:{name}", "kind": "group", "language": language}
        messages = [
            {
                "external_id": str(n),
                "sender_id": f"tiny:{speaker}",
                "sender_name": speaker,
                "content": text,
                "sent_at": (BEGAN + timedelta(hours=20 * (n // 4), minutes=n)).isoformat(),
            }
            for n, (speaker, text) in enumerate(said, start=1)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, [chat, *messages])), "utf-8")
        questions = [
            {
                "question": question,
                "kind": kind,
                "evidence": list(map(str, evidence)),
                "tokens": tokens,
                "unexpected": unexpected,
                "answer": "",
            }
            for question, kind, evidence, tokens, unexpected in asked
        ]
        (folder / f"{name}_questions.json").write_text(json.dumps(questions), "utf-8")
        translated = f'translation_of = "{original}"\n' if original else ""
        listed.append(
            f'[{name}]\npart = "{part}"\nkind = "group of 5"\nlanguage = "{language}"\n{translated}'
        )
    (folder / "chats.toml").write_text("\n".join(listed), "utf-8")
    return folder
