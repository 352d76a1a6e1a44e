"""Every public function of the pipeline and its SQL, called by a hostile tenant: nothing of another's comes of it.

Functions are found by looking: a new one is walked at once, and fails here as long as nobody has said what may be
put into its parameters (`arguments.BY_NAME`), or why it need not be walked (`EXEMPT`).
"""

import asyncio
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

import pipeline
from pipeline.recall.ask.ask import Ask, ParsedQuestion
from pipeline.store.database import Database
from schemas.errors import BackscrollError
from tests.hostile.arguments import argument
from tests.hostile.caller import THEMES, Caller, Theme
from tests.hostile.conftest import Stage
from tests.hostile.victims import MALLORY, SECRET, VICTIM

# They serve all tenants as the maintenance role, which reads no text, or the owner of the tables: never a tenant.
EXEMPT = {
    "jobs.runner.run": "claims the work of all tenants as maintenance; its handlers are walked",
    "jobs.runner.give_back": "releases claims as maintenance; its statement is walked",
    "jobs.runner.finish": "its statement, store.jobs.finish, is walked",
    "store.accepting.begin": "says which tenant is served, as `Database.tenant` does; ingest.accept.accept is walked",
    "store.committed.tell": "runs no statement",
    "store.committed.lines_of": "runs no statement",
    "operations.sweep.sweep": "looks over all tenants as maintenance; its statements are walked",
    "operations.doctor.mend.mend_indexes": "the owner's",
    "store.vectors.build_index": "the owner's",
    "store.vectors.drop_index": "the owner's",
    "store.spaces.lock": "the owner's",
    "store.spaces.register": "the owner's",
    "store.spaces.set_status": "the owner's",
    "operations.spaces.add": "the owner's",
    "operations.spaces.activate": "the owner's",
    "operations.backfill.progress": "looks over all tenants as maintenance, and at no text",
    "store.checks.rebuild": "the owner's",
    **dict.fromkeys(
        (
            *("llm.limits.enter", "llm.limits.leave", "store.llm_limits.lock", "store.llm_limits.save"),
            *("store.llm_limits.count_slots", "store.llm_limits.take_slot", "store.llm_limits.free_slot"),
            *("store.llm_limits.stopped", "operations.costs.stopped_providers"),
            "operations.doctor.collect.stopped_providers",
        ),
        "what all tenants share of a provider: it holds nothing of any",
    ),
    **dict.fromkeys(
        ("store.spaces.calibrate", "enrich.embed_spaces.calibrate"),
        "four numbers of a space, which all tenants share, measured on sentences of ours",
    ),
    **{
        f"store.statements.{each}": "runs its caller's statement"
        for each in ("run", "column", "number", "holds")
    },
}
# What a hostile call may end with, and no row of another tenant told by it.
REFUSALS = (BackscrollError, SQLAlchemyError, psycopg.Error, ValidationError, ValueError)


@dataclass(frozen=True)
class Function:
    """A public function that reaches the database."""

    name: str
    call: Callable[..., Any]
    # by parameter
    kinds: Mapping[str, str]

    @property
    def commits(self) -> bool:
        """Whether it makes its own transactions."""
        return "database" in self.kinds


def functions() -> Iterator[Function]:
    """All of them."""
    for found in pkgutil.walk_packages(pipeline.__path__, "pipeline."):
        if found.name.startswith(("pipeline.platforms", "pipeline.clients")):
            continue
        module = importlib.import_module(found.name)
        for name, call in vars(module).items():
            if not inspect.isfunction(call) or call.__module__ != found.name or name.startswith("_"):
                continue
            hints = typing.get_type_hints(call)
            kinds = {each: _kind(hints[each]) for each in inspect.signature(call).parameters}
            if {Connection, Database} & set(hints.values()):
                yield Function(f"{found.name.removeprefix('pipeline.')}.{name}", call, kinds)


def _kind(hint: Any) -> str:
    return str(hint).removeprefix("<class '").removesuffix("'>").replace("collections.abc.", "")


FUNCTIONS = {function.name: function for function in functions()}


def arguments(function: Function, caller: Caller) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named ones, as its signature wants them."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in inspect.signature(function.call).parameters.values():
        value = argument(caller, function.name, parameter.name, function.kinds[parameter.name])
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional.append(value)
    return positional, named


def told(result: Any, caller: Caller) -> str:
    """All that a result tells, whatever it is; a handler is let do its work."""
    if inspect.iscoroutine(result):
        result = asyncio.run(result)
    if isinstance(result, BaseModel):
        return result.model_dump_json()
    if isinstance(result, Iterator):
        return "".join(told(each, caller) for each in result)
    if isinstance(result, list | tuple | set | frozenset):
        return "".join(told(each, caller) for each in result)
    if isinstance(result, Mapping):
        return "".join(told(each, caller) for pair in result.items() for each in pair)
    if isinstance(result, ParsedQuestion | Ask):
        # not the request, with the row of a chat that the caller put in
        return "".join(told(value, caller) for name, value in vars(result).items() if name != "request")
    if inspect.isfunction(result):
        for claim in caller.claims:
            try:
                result(MALLORY, [claim])
            except (*REFUSALS, KeyError) as error:
                # a key of another kind of work is none that this handler knows
                return str(error)
        return ""
    return repr(result)


def attack(stage: Stage, function: Function, theme: Theme, *, commit: bool, name: str = MALLORY) -> str:
    """What a tenant of this name learns."""

    def call(caller: Caller) -> str:
        positional, named = arguments(function, caller)
        return told(function.call(*positional, **named), caller)

    try:
        if function.commits:
            return call(Caller(stage, theme))
        with stage.database.tenant(name) as connection:
            learned = call(Caller(stage, theme, connection))
            if not commit:
                connection.rollback()
            return learned
    except REFUSALS as error:
        return str(error)


@pytest.mark.parametrize(
    "name", sorted(FUNCTIONS.keys() - EXEMPT.keys(), key=lambda n: (FUNCTIONS[n].commits, n))
)
def test_nothing_of_another_tenant_is_seen_or_changed(stage: Stage, name: str) -> None:
    function = FUNCTIONS[name]
    for theme in THEMES:
        assert SECRET not in attack(stage, function, theme, commit=False), f"{name} with {theme.name}"
    # what is left of one's own is enough to harm others by their ids
    for theme in THEMES[:4] if not function.commits else ():
        attack(stage, function, theme, commit=True)
    stage.unharmed(name)


def test_in_the_victim_s_own_name_the_same_calls_do_see_the_secret(stage: Stage) -> None:
    seeing = {
        name
        for name, function in FUNCTIONS.items()
        if not function.commits
        and name not in EXEMPT
        and SECRET in attack(stage, function, THEMES[0], commit=False, name=VICTIM)
    }
    assert {"store.messages.by_id", "store.sessions.find", "store.export.messages"} <= seeing
    assert len(seeing) > 20, seeing


def test_exemptions_are_of_functions_that_are_there() -> None:
    assert EXEMPT.keys() <= FUNCTIONS.keys()
