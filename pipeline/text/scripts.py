"""Scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana and Han."""

import re

FIRST_UNSPACED = "\u0e00"
"""The first character of such a script: a text without any from here on has none."""
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+")
"""A run of them."""
