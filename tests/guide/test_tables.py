"""The guide's tables and numbers are those of the code: fields, limits, parameters, weights, exit codes."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from ops import exit_codes
from pipeline.recall.ask.profiles import PROFILES
from pipeline.recall.ask.weights import Weights
from pipeline.recall.choose import known, recent, summaries, talk, worth
from pipeline.recall.find import candidates
from pipeline.store.search import keyword_search, vector_search
from schemas.context import BlockKind, Context, DropReason
from schemas.languages import CONFIGURATIONS, LANGUAGES
from schemas.messages import (
    FIRST_YEAR,
    LAST_YEAR,
    MAX_CONTENT_BYTES,
    MAX_METADATA_BYTES,
    MAX_METADATA_DEPTH,
    ChatIn,
    MessageIn,
)
from schemas.payloads import ContextParameters, ContextQuery
from schemas.profiles import PURPOSES
from schemas.search import SearchMode, SearchQuery
from tests.guide.pages import README, page

BOTS, CONTEXT, RETRIEVAL = page("bots"), page("context"), page("retrieval")


def names(text: str) -> list[str]:
    """The names between backticks, in their order."""
    return re.findall(r"`(\w+)`", text)


def test_the_parameters_have_the_numbers_of_the_profiles() -> None:
    told = re.findall(
        r"^- `(\w+)` ([\d.]+)(?: \((`[^)]+)\))?", RETRIEVAL.section("## Parameters"), re.MULTILINE
    )
    assert [name for name, _, _ in told] == list(ContextParameters.model_fields)
    for name, usual, others in told:
        differing = dict(re.findall(r"`(\w+)` ([\d.]+)", others))
        stated = [float(differing.get(profile, usual)) for profile in PROFILES]
        assert stated == [getattr(each, name) for each in PROFILES.values()], name


def test_the_parts_of_a_score_are_those_of_the_ranking() -> None:
    assert set(Weights.__dataclass_fields__) <= set(names(RETRIEVAL.section("## Ranking")))


def test_the_limits_of_retrieval_are_those_of_the_code() -> None:
    text = RETRIEVAL.sentences
    neighbours = {2: "two", 3: "three", 4: "four", 5: "five"}[candidates.REACH]
    assert f"each with {neighbours} neighbours on either side" in text
    assert f"over {vector_search.EXACT_UP_TO:,} of them" in text
    assert f"in more than {keyword_search.CANDIDATES:,} messages together" in text
    stemmed, others = len(CONFIGURATIONS) - 1, len(LANGUAGES) - len(CONFIGURATIONS)
    assert f"{stemmed} languages are stemmed by Postgres" in text
    assert f"Some {round(others, -1)} more" in text
    assert f"[some {round(stemmed + others, -1)} languages]" in README.sentences


def test_the_context_is_described_field_by_field() -> None:
    assert set(Context.model_fields) == {name for row in CONTEXT.table("field") for name in names(row[0])}
    blocks = re.search(r"Blocks come in this order.*?\n\n", CONTEXT.prose, re.DOTALL)
    assert blocks is not None
    assert tuple(names(blocks[0])) == get_args(BlockKind)
    questions = {name for row in CONTEXT.table("field of a question") for name in names(row[0])}
    assert questions == set(ContextQuery.model_fields)
    assert f"worth less than {worth.LIMIT:g} is not shown" in CONTEXT.sentences
    worths = CONTEXT.section("### What a line is worth")
    assert f"shows neighbours | {talk.BESIDE_WORTH:g} of that |" in worths
    assert f"| a recent message | at least {recent.RECENT_WORTH:g}, " in worths
    assert f" | at least {known.ALWAYS_SHOWN_WORTH:g} |" in worths
    assert f"| a related session | {summaries.RELATED_WORTH:g} |" in worths
    assert set(get_args(DropReason)) <= set(names(CONTEXT.section("## Explanations")))


def test_every_profile_is_explained_in_the_words_of_the_code() -> None:
    told = {row[0].strip("`"): row[1] for row in CONTEXT.table("profile")}
    assert told == PURPOSES
    assert list(told) == list(PROFILES)


def as_told(field: dict[str, Any]) -> tuple[str, str]:
    """A field's type and limit as the guide writes them, from its JSON schema."""
    kinds = [kind for kind in _flat(field) if kind.get("type") != "null"]
    types = [str(kind.get("type")) for kind in kinds if "type" in kind]
    if any(kind.get("format") == "date-time" for kind in kinds):
        return "time", ""
    if values := next((kind["enum"] for kind in kinds if "enum" in kind), None):
        *first, last = [f"`{value}`" for value in values]
        return f"{', '.join(first)} or {last}", ""
    bounds = {name: value for kind in kinds for name, value in kind.items() if name.startswith(("m", "M"))}
    if set(types) == {"string", "integer"}:
        assert f"An id is a string or integer of up to {bounds['maxLength']} characters." in BOTS.sentences
        return "id", ""
    limit = ""
    if "maxLength" in bounds:
        least = f"{bounds['minLength']}–" if "minLength" in bounds else ""
        limit = f"{least}{bounds['maxLength']} characters"
    if "maximum" in bounds:
        limit = f"{bounds['minimum']}–{bounds['maximum']}"
    return " or ".join(types), limit


def _flat(field: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield field
    for inner in field.get("anyOf", []):
        yield from _flat(inner)


# What no JSON schema says.
LIMITS = {
    "content": f"{MAX_CONTENT_BYTES:,} bytes",
    "sent_at": f"years {FIRST_YEAR}–{LAST_YEAR}",
    "metadata": f"{MAX_METADATA_BYTES:,} bytes, {MAX_METADATA_DEPTH} levels",
}


@pytest.mark.parametrize(("what", "model"), [("message", MessageIn), ("chat", ChatIn)])
def test_the_fields_of_what_is_handed_over_are_those_of_the_schema(what: str, model: type[BaseModel]) -> None:
    section = BOTS.section(f"### Fields of a {what}").replace("\n  ", " ")
    fields = re.findall(r"^- `(\w+)` \(([^)]+)\): (.+)$", section, re.MULTILINE)
    schema = model.model_json_schema()
    assert {field for field, _, _ in fields} == set(schema["properties"])
    for field, told, purpose in fields:
        kind, bound = as_told(schema["properties"][field])
        limit = LIMITS.get(field, bound)
        assert told == (f"{kind}, {limit}" if limit else kind), field
        assert purpose.startswith("required") == (field in schema["required"]), field


def test_every_mode_and_filter_of_a_search_is_named() -> None:
    assert {row[0].strip("`") for row in RETRIEVAL.table("`mode`")} == set(get_args(SearchMode))
    section = RETRIEVAL.section("## Search")
    assert set(SearchQuery.model_fields) - {"chat_id", "query"} <= set(names(section))


def test_every_exit_code_is_explained() -> None:
    of_errors = set(exit_codes.OF_ERROR.values())
    of_results = {0, exit_codes.NOT_AS_IT_SHOULD_BE, exit_codes.ERRORS_FOUND}
    real = of_errors | of_results | {exit_codes.DEFECT, exit_codes.INTERRUPTED}
    assert {int(row[0]) for row in page("operating").table("code")} == real
