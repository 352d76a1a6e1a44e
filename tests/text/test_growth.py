"""No text that people send takes time that grows with its square: every pattern and every reader of text is tried."""

import ast
import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ops
import pipeline
import schemas
import workers
from ops.dev.bench import worst
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import extractive, fact_answers, fact_grounding
from pipeline.enrich.answers import InvalidAnswer
from pipeline.enrich.kept_on_request import RequestExtractor
from pipeline.enrich.protocols import People
from pipeline.platforms import slack_text, whatsapp, whatsapp_text, whatsapp_time
from pipeline.recall import event_dating
from pipeline.recall.ask import followup, names, parse, temporal_anchor
from pipeline.text import (
    answer_types,
    calendar,
    chunking,
    cues,
    dialogue_acts,
    entity_names,
    exact_match,
    excerpt,
    fencing,
    message_cues,
    sentences,
    tokens,
    truncate,
)
from pipeline.text.cues import requests
from pipeline.text.cues.matchers import Phrases, Words
from schemas import messages
from tests.text.builders import message
from tests.text.growth import LONG, MOST_TIMES, texts_for, times_as_long

# coverage would take longer than what it watches
pytestmark = pytest.mark.no_cover

ROOT = Path(pipeline.__file__).parents[1]
METHODS = r"(search|match|fullmatch|findall|finditer|sub|split)"
# Looked at through their functions, below, which give them no more than some hundred characters.
BOUNDED = {
    "pipeline.platforms.whatsapp_text._OMITTED_IPHONE",
    "pipeline.platforms.whatsapp_text._TITLES",
    "pipeline.platforms.whatsapp_time._STYLES",
    "pipeline.platforms.whatsapp_time._STYLES_WITH_OTHER_WORD",
    "pipeline.text.exact_match._IDENTIFIER",
    "pipeline.recall.ask.names._SENTENCE_START",
}
# An end is looked for in the last characters of a sentence; who agrees says it in a short message.
BOUNDED_CUES = {"ends"}
# One of each way to write: all have patterns made of their data in the same way.
WRITTEN = ("english", "chinese")
# Read the versions of our own programs and the paths of our own folders.
NOT_SENT = ("ops.local.embedded",)


def modules() -> Iterator[ModuleType]:
    for package in (schemas, pipeline, workers, ops):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def patterns_in(value: Any, name: str, module: str, seen: set[int]) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The patterns that a value is or holds, with their names; each value once."""
    if id(value) in seen:
        return
    held: Iterable[tuple[str, Any]] = ()
    match value:
        case re.Pattern():
            yield name, value
        case dict():
            held = ((f"{name}[{key!r}]", inner) for key, inner in value.items())
        case list() | tuple() | set() | frozenset():
            held = ((f"{name}[{number}]", inner) for number, inner in enumerate(value))
        case type() if value.__module__ == module:
            held = ((f"{name}.{key}", inner) for key, inner in vars(value).items())
        case _:
            return
    seen.add(id(value))
    for inside, inner in held:
        yield from patterns_in(inner, inside, module, seen)


@cache
def every_pattern() -> dict[str, re.Pattern[str]]:
    """Every pattern of the tree that reads text, once, by its first name."""
    found: dict[str, re.Pattern[str]] = {}
    seen: set[int] = set()
    for module in modules():
        for variable, value in list(vars(module).items()):
            # a task stands for itself: what is asked of it is looked up in whichever application there is
            if not variable.startswith("__") and type(value).__module__ != "celery.local":
                found |= patterns_in(value, f"{module.__name__}.{variable}", module.__name__, seen)
    return {name: pattern for name, pattern in found.items() if isinstance(pattern.pattern, str)}


def patterns_of_cues(language: str) -> dict[str, re.Pattern[str]]:
    """Every pattern of a language's file, by its section; those of a beginning are shown no more than they read."""
    found: dict[str, re.Pattern[str]] = {}
    for field, value in vars(cues.cues_of(language)).items():
        match value:
            case re.Pattern() if field not in BOUNDED_CUES:
                found[field] = value
            case Phrases():
                found |= {f"{field}[{number}]": each for number, each in enumerate(value.patterns)}
            case Words(pieces=re.Pattern() as pieces):
                found[field] = pieces
            case dict():
                for kind, phrases in value.items():
                    found |= {f"{field}[{kind}][{i}]": each for i, each in enumerate(phrases.patterns)}
    for kind, phrases in requests.phrases(language).items():
        found |= {f"{kind}[{i}]": each for i, each in enumerate(phrases.patterns)}
    return found


def methods_of(name: str) -> set[str]:
    """How a pattern is used where it stands; all ways where that does not say."""
    module, _, variable = name.partition("[")[0].rpartition(".")
    source = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text()
    return set(re.findall(rf"\b{variable}\.{METHODS}\b", source)) or {"search", "fullmatch", "finditer"}


def used(pattern: re.Pattern[str], method: str) -> Callable[[str], object]:
    """The pattern as it is used, all of a text gone through."""
    if method in {"search", "match", "fullmatch"}:
        return getattr(pattern, method)  # type: ignore[no-any-return]
    return lambda text: sum(1 for _ in pattern.finditer(text))


def test_no_pattern_takes_time_that_grows_with_the_square_of_a_text() -> None:
    found_out = []
    for name, pattern in every_pattern().items():
        if name.partition("[")[0] in BOUNDED:
            continue
        for method in sorted(methods_of(name)):
            for told, text in texts_for(pattern).items():
                times = times_as_long(used(pattern, method), text)
                if times >= MOST_TIMES:
                    found_out.append(
                        f"{name}.{method} of {told}: {times:.0f} times as long for 4 times the text"
                    )
                    break
    assert found_out == []


@pytest.mark.parametrize("language", WRITTEN)
def test_no_cue_takes_time_that_grows_with_the_square_of_a_text(language: str) -> None:
    found_out = []
    for name, pattern in patterns_of_cues(language).items():
        method = "match" if name in {"begins", "openers"} else "search"
        for told, text in islice(texts_for(pattern).items(), 0, None, SOME):
            times = times_as_long(used(pattern, method), text)
            if times >= MOST_TIMES:
                found_out.append(f"{name} of {told}: {times:.0f} times as long for 4 times the text")
                break
    assert found_out == []


def test_patterns_of_every_kind_are_tried() -> None:
    tried = every_pattern().keys()
    assert {
        "pipeline.text.sentences._END",
        "pipeline.text.fencing._OWN_TAG",
        "pipeline.text.figures._FULL",
        "pipeline.platforms.formats._KEY['guild']",
        "schemas.messages._UNSTORABLE",
        "workers.signals.ACCEPTABLE_REQUEST_ID",
    } <= tried
    assert {name.partition("[")[0] for name in tried} >= BOUNDED


@pytest.mark.parametrize("quadratic", [r"\s*\[picture: [^\]]*\]\s*$", r"<(?=\s*/?\s*tag)", r"'[^']+\s*$"])
def test_a_pattern_that_grows_with_the_square_is_found_out(quadratic: str) -> None:
    pattern = re.compile(quadratic)
    assert any(times_as_long(pattern.search, text) >= MOST_TIMES for text in texts_for(pattern).values())


def calls_of_re(tree: ast.AST, within: str) -> Iterator[tuple[str, str]]:
    """Where inside of functions a pattern is compiled or used without being compiled: no test would see it."""
    for node in ast.iter_child_nodes(tree):
        inside = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = node.name
        if (
            inside
            and isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr not in {"escape"}
        ):
            yield inside, node.func.attr
        yield from calls_of_re(node, inside)


def test_patterns_stand_where_this_test_finds_them() -> None:
    hidden = []
    for package in ("schemas", "pipeline", "workers", "ops"):
        for path in (ROOT / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for function, call in calls_of_re(ast.parse(path.read_text()), ""):
                where = f"{module}.{function}"
                if not module.startswith(NOT_SENT):
                    hidden.append(f"{where}: re.{call}")
    assert hidden == []


NOW = datetime(2026, 4, 15, tzinfo=UTC)
SAID = date(2026, 4, 15)
# Of the texts that are tried, one in so many where reading each takes long.
SOME = 5
SLOW = {
    *("question", "summary", "days that a message names", "kept on request", "dates of a question"),
    *("excerpt of a message", "excerpt of a passage", "excerpt", "chunks"),
}
FERRY = excerpt.Wanted.of("when does the ferry go", "english")


def asked(text: str, language: str = "english") -> parse.Question:
    return parse.read(text, ["Ann Lee", "Bob", "Will"], datetime(2016, 5, 1, tzinfo=UTC), NOW, language)


def whole_summary(text: str) -> object:
    """A session in which one person says it all, in messages as long as the summarizer reads."""
    parts = [text[at : at + 2000] for at in range(0, len(text), 2000)]
    return extractive.summarize([message(part, id=number) for number, part in enumerate(parts, start=1)])


def read_facts(text: str) -> None:
    """As what is said in a session, and as what a model answers."""
    said = [message(text, id=1)]
    fact_grounding.Said(said).states("Ann lives in Porto.", "Ann", [0])
    people = People(kind="group", names={"Ann": "test:ann"})
    with suppress(InvalidAnswer):
        fact_answers.read(text, said, people=people, known=[], time_zone=UTC)
    fact = {"content": text, "category": "fact", "about": "speaker", "subject": text, "messages": [1]}
    fact_answers.read(json.dumps({"facts": [fact]}), said, people=people, known=[], time_zone=UTC)


def kept(text: str) -> object:
    """A session in which one person says it all, in messages as long as they are read."""
    parts = [text[at : at + 2000] for at in range(0, len(text), 2000)]
    said = [message(part, id=number) for number, part in enumerate(parts, start=1)]
    return RequestExtractor().extract(said, people=People(kind="direct", agent="Pip"))


def read_export(text: str) -> object:
    said = whatsapp_text.read_text(text, iphone=True), whatsapp_text.read_text(text, iphone=False)
    return said, whatsapp_time.read_start(text), whatsapp_time.read_start(f"[{text}")


def cue(text: str, language: str) -> object:
    """All that is read off a message and off a question by the cues of a language."""
    written = tuple(sentences.words(text))
    one = dialogue_acts.Sentence(
        message=0,
        speaker="Ann",
        text=text,
        words=written,
        terms=sentences.terms(written, language),
        language=language,
    )
    said = cues.plain(text)
    return [
        message_cues.read(text, language),
        answer_types.asked(text, language),
        dialogue_acts.promises(one),
        one.asks,
        [phrases.found(said) for phrases in (one.cues.unsure, one.cues.wonders, one.cues.small_talk)],
        followup.leans(asked(text, language)),
    ]


def times(text: str, language: str) -> object:
    """What a question says of times, people and events in a language."""
    people = ["Ann Lee", "Олег", "Koch", "李明", "a b c"]
    return (
        calendar.times(text, datetime(2016, 5, 1, tzinfo=UTC), NOW, language),
        names.find(text, people, language),
        temporal_anchor.mention(text, language),
    )


READERS: dict[str, Callable[[str], object]] = {
    "one_line": truncate.one_line,
    "within_tokens": partial(truncate.within_tokens, tokens=100),
    "brief": lambda text: followup.brief(asked("and it?"), [message(text)], message("").sent_at),
    **{f"cues in {language}": partial(cue, language=language) for language in WRITTEN},
    "chunks": lambda text: chunking.split(text, limit=200, overlap=30),
    "days": lambda text: list(calendar.days(text, SAID)),
    **{f"times, {name}": partial(times, language=name) for name in WRITTEN},
    "telling words": partial(parse.telling, language="english"),
    "days that a message names": lambda text: event_dating._days(text, NOW),
    "names that a question may hold": lambda text: entity_names.asked(text, "english"),
    "event": temporal_anchor.mention,
    "excerpt": lambda text: excerpt.about(text, FERRY, 60),
    "excerpt of a message": lambda text: excerpt.shown(text, FERRY, 60),
    "excerpt of a passage": lambda text: excerpt.shown(text, FERRY, 60, in_lines=True),
    "displayed": truncate.displayed,
    "harmless": fencing.harmless,
    "visible": fencing.visible,
    "without_recalled": lambda text: fencing.without_recalled(fencing.OPEN + text),
    "question": asked,
    "dates of a question": lambda text: calendar.dates(text, NOW, NOW),
    "sentences": sentences.sentences,
    "terms": lambda text: sentences.terms(sentences.words(text), "english"),
    "summary": whole_summary,
    "facts": read_facts,
    "kept on request": kept,
    "asks": lambda text: answer_types.asks(text, "english"),
    "asks after an address": lambda text: answer_types.asks("https://" + text + "?", "english"),
    "tokens": tokens.estimate_line,
    "verbatim": lambda text: exact_match.taken(text, {"ann"}),
    "numbers": exact_match.numbers,
    "clean_text": messages.clean_text,
    "slack": lambda text: slack_text.plain(text, {}),
    "whatsapp": read_export,
    "title": whatsapp.title_from_name,
    "embedder": DeterministicEmbedder(max_chars=LONG).embed_query,
}
PIECES = """
a A ab. Ab, é 漢 1 1. 1: 1, 1/ 1- \u3002 . .. ! ? ?x …  ' " “ ” ` ( ) [ ] { } < > / \\ - _ @ @a # $ € + = ~ | ^ * & % ;
""".split(" ")


def texts() -> dict[str, Callable[[int], str]]:
    """What `ops.dev.bench.worst` sends, and runs of signs: each as long as wanted."""
    found: dict[str, Callable[[int], str]] = {}
    pieces = {*worst.REPEATED, *PIECES, *(piece + " " for piece in PIECES), "\n", "\n ", " \n\n", "\x00"} - {
        ""
    }
    for piece in sorted(pieces):
        found[repr(piece)] = lambda size, piece=piece: piece * (size // len(piece))
    for begin, end in worst.FRAMES:
        found[f"{begin!r} spaces {end!r}"] = lambda size, begin=begin, end=end: begin + " " * size + end
    return found


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_of_text_takes_time_that_grows_with_the_square_of_it(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_cues, "LONGEST_READ", LONG)
    slow = reader.startswith(("cues in ", "times, ")) or reader in SLOW
    for told, text in islice(texts().items(), 0, None, SOME if slow else 1):
        times = times_as_long(READERS[reader], text)
        assert times < MOST_TIMES, f"{reader} of {told}: {times:.0f} times as long for four times the text"
