"""Read a model's answer as a summary, or say what is wrong with it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.enrich.summaries.prompts import MAX_ENTITIES, MAX_ITEMS
from pipeline.text.fencing import visible
from pipeline.text.languages import ANY_LANGUAGE
from pipeline.text.sentences import sentences, terms, words
from pipeline.text.truncate import shortened
from schemas.errors import ProviderFailed
from schemas.sessions import Summary

MAX_SENTENCES = 10
MAX_SUMMARY_CHARS = 2400
MAX_ITEM_CHARS = 300
MIN_FOUND_SHARE = 0.25
"""Share of a summary's content words that must occur in its transcript: a true summary in the model's own words has
about half, an unrelated one an eighth."""
# Fewer content words are too few to judge by.
_MIN_TERMS = 4
# Only the beginning of a word is compared, as endings are inflected.
_STEM_CHARS = 5
# Content words from which a message tells something, and number of such messages from which a summary must cover two.
_TELLING_TERMS, _TELLING_MESSAGES = 2, 3

_LISTS = {
    "topics": MAX_ITEMS,
    "decisions": MAX_ITEMS,
    "open_questions": MAX_ITEMS,
    "action_items": MAX_ITEMS,
    "entities": MAX_ENTITIES,
}
_END_OF_THOUGHTS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
# Models write unescaped line ends into strings.
_DECODER = json.JSONDecoder(strict=False)
_LINK = re.compile(r"(?:https?://|www\.)[^\s\"'<>)\]]+", re.IGNORECASE)


class InvalidAnswer(ProviderFailed):
    """An answer in the wrong form; the message tells the model why."""


def read(answer: str, texts: Sequence[str]) -> Summary:
    """Read an answer as the summary of these texts, of messages or of summaries. Raises `InvalidAnswer`."""
    summary = parse(answer)
    _require_grounded(summary, texts)
    return summary


def parse(answer: str) -> Summary:
    """Read the JSON object of an answer, with or without text or code fences around it. Raises `InvalidAnswer`.

    >>> parse('Sure! {"summary": "Ann fixed it.", "topics": "boiler", "entities": null} Anything else?').topics
    ['boiler']
    """
    data = json_object(answer, "summary")
    text = data.get("summary")
    if not isinstance(text, str) or not visible(text).strip():
        raise InvalidAnswer('"summary" must be a text of 3 to 6 sentences')
    text = " ".join(visible(text).split())
    if len(text) > MAX_SUMMARY_CHARS or len(sentences(text)) > MAX_SENTENCES:
        raise InvalidAnswer(
            f'"summary" has {len(sentences(text))} sentences and {len(text)} characters: write 3 to 6 short sentences'
        )
    lists = {name: _lines(data, name, limit) for name, limit in _LISTS.items()}
    return Summary(summary=text, **lists)


def json_object(answer: str, key: str) -> Mapping[str, Any]:
    """Return the first JSON object of an answer that has this key. Raises `InvalidAnswer`."""
    thoughts_end = max((mark.end() for mark in _END_OF_THOUGHTS.finditer(answer)), default=0)
    # after the last mark, or around it, as the answer may quote one; an object that ends before it was a thought
    for begin in dict.fromkeys((thoughts_end, 0)):
        start, tried = answer.find("{", begin), 0
        problem = "there is no JSON object in it"
        while start >= 0 and tried < 50:
            tried += 1
            try:
                parsed, end = _DECODER.raw_decode(answer, start)
            except (ValueError, RecursionError) as error:
                if tried == 1:
                    problem = f"its JSON is broken or incomplete ({str(error)[:80]})"
            else:
                if isinstance(parsed, dict) and key in parsed and end > thoughts_end:
                    return parsed
                # an object inside a broken one is a part of it, so only the first problem is reported
                if tried == 1:
                    problem = f'its JSON object has no "{key}"'
            start = answer.find("{", start + 1)
    raise InvalidAnswer(problem)


def _lines(data: Mapping[str, Any], name: str, limit: int) -> list[str]:
    """Return a list of lines, shortened to their limits; a single text is one line."""
    value = data.get(name)
    if value is None:
        return []
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise InvalidAnswer(f'"{name}" must be a list of strings')
    lines = (shortened(" ".join(visible(line).split()), MAX_ITEM_CHARS) for line in value)
    return list(dict.fromkeys(line for line in lines if line))[:limit]


def _require_grounded(summary: Summary, texts: Sequence[str]) -> None:
    """Refuse a summary that does not report the transcript: foreign words or links, or an order that was obeyed."""
    transcript = "\n".join(texts)
    text = summary.search_text()
    if link := foreign_link(text, transcript):
        raise InvalidAnswer(f"it has a link that is not in the transcript ({link[:80]})")
    of_messages = [stems(message) for message in texts]
    transcript_terms = frozenset[str]().union(*of_messages)
    summary_terms = stems(summary.summary)
    all_terms = stems(text)
    if len(all_terms) >= _MIN_TERMS and len(all_terms & transcript_terms) < MIN_FOUND_SHARE * len(all_terms):
        raise InvalidAnswer("it does not tell what the transcript says: too few of its words are from there")
    telling = [stemmed for stemmed in of_messages if len(stemmed) >= _TELLING_TERMS]
    if len(telling) < _TELLING_MESSAGES:
        return
    # a transcript that repeats a few words needs no more in its summary
    if len(summary_terms) < min(_MIN_TERMS, len(transcript_terms)):
        raise InvalidAnswer('"summary" is too short: say in 3 to 6 sentences what was said, and by whom')
    if sum(1 for stemmed in telling if stemmed & summary_terms) < 2:
        raise InvalidAnswer('"summary" tells of one message: summarize all of the transcript')


def foreign_link(text: str, transcript: str) -> str:
    """Return the first link of a text that the transcript lacks, or an empty string."""
    low = transcript.lower()
    links = (link for link in _LINK.findall(text) if link.lower().rstrip(".,;:!?") not in low)
    return next(links, "")


def stems(text: str) -> frozenset[str]:
    """Return the content words of a text, cut so that inflected forms are equal."""
    return frozenset(term[:_STEM_CHARS] for term in terms(words(text), ANY_LANGUAGE))
