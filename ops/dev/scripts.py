"""Texts in many scripts and of any length, for stories, chaos and load: what is ASCII only proves little."""

import random

SENTENCES = {
    "latin": "Žofie našla u řeky modrou loďku a Jürgen den Schlüssel.",
    "cyrillic": "Аня нашла у реки синюю лодку, а Богдан потерял ключ от дома.",
    "greek": "Η Άννα βρήκε μια μπλε βάρκα στο ποτάμι και ένα κλειδί.",
    "arabic": "وجدت آنا قاربًا أزرق عند النهر وفقد بدر مفتاح البيت.",
    "devanagari": "अंजलि को नदी के पास नीली नाव मिली और भरत ने चाबी खो दी।",
    "chinese": "安娜在河边找到了一条蓝色的小船，小明把家里的钥匙弄丢了。",
    "japanese": "アンナは川で青いボートを見つけ、ケンは家の鍵をなくした。",
    "emoji": "🚣🏽‍♀️🌊 🔑❓ 👨‍👩‍👧 🏠💙 👍🏿 🎉",
}
"""A sentence in each script; several characters of `emoji` are more than one code point."""
_LEAST_BYTES, _LONG = 100, 0.01


def any_text(rng: random.Random, most_bytes: int) -> str:
    """Return some words of a random script, or, once in a hundred, a text of any length up to `most_bytes`.

    Of those that are long, each order of magnitude is as frequent as another.
    """
    sentence = SENTENCES[rng.choice(list(SENTENCES))]
    between = " " if " " in sentence else ""
    words = between.join(rng.choices(sentence.split() if between else sentence, k=rng.randint(3, 12)))
    if rng.random() >= _LONG:
        return words
    return repeated(words + " ", int(_LEAST_BYTES * (most_bytes / _LEAST_BYTES) ** rng.random()))


def repeated(text: str, size: int) -> str:
    """Return a text again and again, with at most `size` bytes in UTF-8."""
    encoded = text.encode()
    return (encoded * (size // len(encoded) + 1))[:size].decode(errors="ignore")
