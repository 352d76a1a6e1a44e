"""Messages in many scripts, with texts of any size in bytes."""

from ops.dev.bench.talk import SENTENCES, repeated


def of_bytes(script: str, size: int) -> str:
    """Return a text of a script with at most `size` bytes in UTF-8, and at least all but one character of them."""
    return repeated(SENTENCES[script] + " ", size)


def batch(script: str, size: int, messages: int = 150) -> list[dict[str, str]]:
    """Return messages as a bot writes them, of a script and with texts of at most `size` bytes in all."""
    return [
        {
            "external_id": f"{script}-{number}",
            "sender_id": f"scripts:{number % 3}",
            "sender_name": SENTENCES[script].split()[0][:12],
            "content": of_bytes(script, size // messages),
            "sent_at": "2026-03-02T18:00:00Z",
        }
        for number in range(messages)
    ]
