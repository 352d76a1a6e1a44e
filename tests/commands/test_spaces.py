"""The operator changes the embedding model step by step, and is told what each step needs."""

import json

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.operations import spaces as operations
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.commands.conftest import Run, Workers
from tests.commands.test_doctor import may_mend
from tests.conftest import TENANT
from tests.operations.test_spaces import owner_of

pytestmark = pytest.mark.usefixtures("house")

OLD, NEW = (DeterministicEmbedder(dimensions=size).space for size in (256, 384))
MULTILINGUAL = "onnx/multilingual-e5-small/384"
LOCAL = "sentence-transformers/all-MiniLM-L6-v2/384"


@pytest.fixture
def operator(run: Run, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line of one who owns the tables."""
    may_mend(settings, monkeypatch)
    return run


@pytest.fixture
def filled(operator: Run, database: Database, settings: Settings, workers: Workers) -> None:
    """A second space, filled."""
    with owner_of(settings) as owner:
        operations.add(owner, database, [TENANT], NEW)
    assert operator("backfills", "start", "embed", "--json").code == 0
    workers.finish()


def statuses(run: Run) -> dict[str, str]:
    return {each["space"]: each["status"] for each in run("spaces", "--json").json["spaces"]}


def test_the_multilingual_model_is_added_by_that_word_and_other_prefixes_than_its_own_are_found(
    operator: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = operator("spaces", "add", "multilingual", "--json").json
    assert (added["space"], added["status"]) == (MULTILINGUAL, "building")
    monkeypatch.setenv("BACKSCROLL_EMBEDDING_PROVIDER", "onnx")
    monkeypatch.setenv("BACKSCROLL_EMBEDDING_MODEL", "multilingual-e5-small")
    assert "other prefixes" not in operator("doctor").out
    monkeypatch.setenv("BACKSCROLL_EMBEDDING_QUERY_PREFIX", "вопрос: ")
    assert f"the settings give {MULTILINGUAL} other prefixes" in " ".join(operator("doctor").out.split())


def test_a_space_is_compared_activated_rolled_back_and_the_old_one_retired(
    operator: Run, filled: None, running: object, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = operator("spaces", "compare", NEW.name, "--samples", 20, "--json").json
    assert found["missing"] == 0
    assert found["comparison"]["samples"] == 20
    assert 0.2 < found["comparison"]["overlap"] < 1
    told = operator("spaces", "compare", NEW.name, "--samples", 20)
    assert "of what they find is the same" in told.out
    assert "It is complete." in told.out
    # the switch, and back
    assert operator("spaces", "activate", NEW.name, "--json").json["status"] == "active"
    assert statuses(operator) == {OLD.name: "standby", NEW.name: "active"}
    # settings that name only a provider leave the model to the database
    assert "the settings name the embedder" not in operator("doctor").out
    with monkeypatch.context() as named:
        named.setenv("BACKSCROLL_EMBEDDING_MODEL", OLD.model)
        assert "the settings name the embedder" in operator("doctor").out
    assert operator("search", "boiler", "--json").json["degraded"] == []
    back = operator("spaces", "rollback", "--json").json
    assert (back["space"], back["missing"]) == (OLD.name, 0)
    # and for good
    operator("spaces", "activate", NEW.name)
    assert operator("spaces", "retire", OLD.name, "--yes", "--json").json["deleted"] > 400
    assert operator("spaces", "rollback").code == 3
    with database.tenant(TENANT) as connection:
        left = connection.exec_driver_sql("SELECT count(DISTINCT space_id) FROM message_vectors").scalar()
    assert left == 1


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("add", "nonsense"), 2, "PROVIDER/MODEL"),
        (("add", "nobody/nothing"), 4, "nobody"),
        (("add",), 2, "is there already, active"),
        (("activate", "nobody/nothing"), 3, "there is no embedding space nobody/nothing"),
        (("activate", OLD.name), 2, "already"),
        (("compare", OLD.name), 2, "active space itself"),
        (("retire", OLD.name, "--yes"), 2, "activate another space first"),
        (("rollback",), 3, "no space stands by"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    operator: Run, arguments: tuple[str, ...], code: int, told: str
) -> None:
    refused = operator("spaces", *arguments)
    assert (refused.code, "Traceback" in refused.err) == (code, False)
    assert told in " ".join(refused.err.split())


def test_changes_take_the_owner_of_the_tables(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BACKSCROLL_OWNER_DATABASE_URL", raising=False)
    refused = run("spaces", "rollback")
    assert refused.code == 4
    assert "BACKSCROLL_OWNER_DATABASE_URL" in refused.err
    # looking does not
    assert json.loads(run("spaces", "--json").out)["spaces"][0]["missing"] == 0
