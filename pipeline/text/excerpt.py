"""Excerpt the part of a long passage that a question is about, in whole sentences."""

from pipeline.text import truncate
from pipeline.text.sentences import sentences, terms, words
from pipeline.text.tokens import estimate


def about(text: str, question: str, tokens: int, language: str) -> str:
    """Return the run of sentences with most of the question's words, within `tokens` estimated tokens.

    On one line, with an ellipsis where something is left out; the beginning if no word of the question occurs.

    >>> about("Tea is at five. The ferry goes at eight. Bring a coat.", "When does the ferry go?", 9, "english")
    '… The ferry goes at eight. …'
    """
    line = " ".join(text.split())
    if estimate(line) <= tokens:
        return line
    said = [" ".join(sentence.split()) for sentence in sentences(text)]
    wanted = set(terms(words(question), language))
    found = [wanted.intersection(terms(words(sentence), language)) for sentence in said]
    costs = [estimate(sentence) for sentence in said]
    room = tokens - 2 * estimate(truncate.ELLIPSIS)
    best, chosen = (-1, 0), (0, 0)
    for start in range(len(said)):
        end, spent, hit = start, 0, set[str]()
        while end < len(said) and spent + costs[end] <= room:
            spent, hit, end = spent + costs[end], hit | found[end], end + 1
        worth = (len(hit), sum(map(len, found[start:end])))
        if end > start and worth > best:
            best, chosen = worth, (start, end)
    start, end = chosen
    if start == end:
        # not one sentence is short enough
        most = max(range(len(said)), key=lambda number: len(found[number]))
        return truncate.within_tokens(said[most], tokens, estimate)
    inner = " ".join(said[start:end])
    before, after = (
        (f"{truncate.ELLIPSIS} " if start else ""),
        (f" {truncate.ELLIPSIS}" if end < len(said) else ""),
    )
    return f"{before}{inner}{after}"
