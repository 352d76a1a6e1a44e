"""The guide's tables and numbers are those of the code: fields, limits, parameters, weights, exit codes."""

import re
from typing import get_args

import pytest
from pydantic import BaseModel

from ops import exit_codes
from pipeline.recall import relevance
from pipeline.recall.profiles import PROFILES, Weights
from pipeline.store.connections import engines
from pipeline.store.search import keyword_search, vector_search
from schemas.context import PROFILE_PURPOSES, BlockKind, Context, DropReason
from schemas.languages import CONFIGURATIONS
from schemas.memories import EvidenceLevel, MemoryPayload
from schemas.messages import (
    MAX_CONTENT_BYTES,
    MAX_METADATA_BYTES,
    MAX_METADATA_DEPTH,
    ChatIn,
    MessageIn,
)
from schemas.payloads import ContextParameters, ContextQuery
from schemas.search import SearchMode, SearchQuery
from tests.guide.pages import page

BOTS, CONTEXT, RETRIEVAL = page("bots"), page("context"), page("retrieval")


def names(text: str) -> list[str]:
    """The names between backticks, in their order."""
    return re.findall(r"`(\w+)`", text)


def test_parameters_have_the_numbers_of_the_profiles_and_a_score_its_parts() -> None:
    assert set(Weights.__dataclass_fields__) <= set(names(RETRIEVAL.section("## Ranking")))
    told = re.findall(
        r"^- `(\w+)` ([\d.]+)(?: \((`[^)]+)\))?", RETRIEVAL.section("## Parameters"), re.MULTILINE
    )
    assert [name for name, _, _ in told] == list(ContextParameters.model_fields)
    for name, usual, others in told:
        differing = dict(re.findall(r"`(\w+)` ([\d.]+)", others))
        stated = [float(differing.get(profile, usual)) for profile in PROFILES]
        assert stated == [getattr(each, name) for each in PROFILES.values()], name


def test_the_limits_of_retrieval_are_those_of_the_code() -> None:
    text = RETRIEVAL.sentences
    assert f"over {vector_search.EXACT_UP_TO:,} of them" in text
    assert f"in more than {keyword_search.CANDIDATES:,} messages together" in text
    assert f"{len(CONFIGURATIONS) - 1} languages are stemmed by Postgres" in text


def test_the_page_of_large_deployments_has_the_numbers_of_the_code() -> None:
    large = page("large")
    assert f"over {vector_search.EXACT_UP_TO:,} messages and a tenth" in large.sentences
    assert vector_search.TIMES_AS_MANY == 10
    assert f"up to {engines.CATCH_UP_SECONDS * 1000:g} ms" in large.sentences


def test_the_context_is_described_field_by_field() -> None:
    answer, _, _ = CONTEXT.section("## The answer").partition("### ")
    assert set(Context.model_fields) <= set(names(answer))
    blocks = re.search(r"Blocks come in this order.*?\n\n", CONTEXT.prose, re.DOTALL)
    assert blocks is not None
    assert tuple(names(blocks[0])) == get_args(BlockKind)
    assert set(ContextQuery.model_fields) <= set(names(CONTEXT.section("## The question")))
    assert f"worth less than {relevance.LIMIT:g} is not shown" in CONTEXT.sentences
    assert [row[0].strip("`") for row in CONTEXT.table("`evidence`")] == list(get_args(EvidenceLevel))
    told = {row[0] for row in CONTEXT.table("limit")}
    named = {f"`{name}` {getattr(relevance, name):g}" for name in ("LIMIT", "NEAREST", "MIN_MESSAGES")}
    assert told == named | {f"`{name}`" for name in relevance.WEIGHT_LIMITS if name != "constant"}
    assert set(get_args(DropReason)) <= set(names(CONTEXT.section("## Explanations")))


def test_every_profile_is_explained_in_the_words_of_the_code() -> None:
    told = {row[0].strip("`"): row[1] for row in CONTEXT.table("profile")}
    assert told == PROFILE_PURPOSES
    assert list(told) == list(PROFILES)


@pytest.mark.parametrize(("what", "model"), [("message", MessageIn), ("chat", ChatIn)])
def test_the_fields_of_what_is_handed_over_are_those_of_the_schema(what: str, model: type[BaseModel]) -> None:
    section = BOTS.section(f"### Fields of a {what}").replace("\n  ", " ")
    fields = re.findall(r"^- `(\w+)` \(([^)]+)\): (.+)$", section, re.MULTILINE)
    schema = model.model_json_schema()
    assert {field for field, _, _ in fields} == set(schema["properties"])
    limits = {
        "content": f"{MAX_CONTENT_BYTES:,} bytes",
        "metadata": f"{MAX_METADATA_BYTES:,} bytes, {MAX_METADATA_DEPTH} levels",
    }
    for field, told, purpose in fields:
        assert purpose.startswith("required") == (field in schema["required"]), field
        assert limits.get(field, "") in told, field
        for longest in re.findall(r"(\d+) characters", told):
            assert f"'maxLength': {longest}" in str(schema["properties"][field]), field


def test_every_field_of_a_memory_is_named() -> None:
    section = page("people-and-privacy").section("### Fields of a memory")
    assert set(MemoryPayload.model_fields) == set(names(section)) & set(MemoryPayload.model_fields)
    assert f"{MAX_CONTENT_BYTES:,} bytes" in section


def test_every_mode_and_filter_of_a_search_is_named() -> None:
    assert {row[0].strip("`") for row in RETRIEVAL.table("`mode`")} == set(get_args(SearchMode))
    section = RETRIEVAL.section("## Search")
    assert set(SearchQuery.model_fields) - {"chat_id", "query"} <= set(names(section))


def test_every_exit_code_is_explained() -> None:
    of_errors = set(exit_codes.OF_ERROR.values())
    of_results = {0, exit_codes.NOT_AS_IT_SHOULD_BE, exit_codes.ERRORS_FOUND}
    real = of_errors | of_results | {exit_codes.DEFECT, exit_codes.INTERRUPTED}
    assert {int(code) for code in re.findall(r"(?:\*\*|·)\s(\d+) ", exit_codes.MEANINGS)} == real
