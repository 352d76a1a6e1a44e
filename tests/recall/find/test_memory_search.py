"""A search for memories: by words and by meaning, filtered, as of a time, and within what may be shown."""

from typing import Any

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.memories import statements
from pipeline.people import identities
from pipeline.recall.search_modes import search_memories
from pipeline.store import vector_spaces, vectors
from pipeline.store.connections.database import Database
from schemas.errors import NotFound
from schemas.memories import MemoryFilter, MemoryQuery, MemoryResult
from schemas.messages import ChatIn
from schemas.vectors import Calibration
from tests.conftest import TENANT, message
from tests.memories.learned import change, day, embedded, learned

HOUSE, ALONE = "test:house", "test:with-ann"


@pytest.fixture
def people(database: Database) -> Database:
    """Ann and Ben in a group, and Ann alone with the bot."""
    for chat, kind, names in ((HOUSE, "group", ("ann", "ben")), (ALONE, "direct", ("ann",))):
        told = [message(n, "hello", id=f"{n}", sender_id=f"test:{name}") for n, name in enumerate(names)]
        accept.accept(database, TENANT, ChatIn.model_validate({"chat_id": chat, "kind": kind}), told)
    return database


def about_ann(database: Database, content: str, **fields: Any) -> Any:
    given = {"user_id": "test:ann", "subject": "Ann", "learned_in": HOUSE, "said_at": day(3, 3)}
    return learned(database, content, **(given | fields))


def found(database: Database, query: str, **fields: Any) -> MemoryResult:
    given = MemoryQuery.model_validate({"query": query} | fields)
    return search_memories(database, TENANT, given, embedder=DeterministicEmbedder())


def measured(database: Database) -> None:
    """Let the space's cosines count, as they do in that of a real model."""
    as_it_is = Calibration(slope=1.0, height=0.0)
    with database.tenant(TENANT) as connection:
        (space,) = vectors.written_spaces(connection)
        vector_spaces.calibrate(connection, space, as_it_is, as_it_is)


def contents(result: MemoryResult) -> list[str]:
    return [hit.memory.content for hit in result.hits]


def test_what_only_the_words_find_and_what_only_the_meaning_finds_both_come(people: Database) -> None:
    for number in range(30):
        about_ann(people, f"Ann told something of no interest, number {number}.")
    # in this space, what is alike has the same words; the stop words are none of the keywords
    about_ann(people, "who is where and what is over there")
    embedded(people)
    measured(people)
    # it waits for its vector
    about_ann(people, "The xylophone is stored upstairs.")
    result = found(people, "who is where and what is over there, with a xylophone?", limit=2)
    assert sorted(contents(result)) == [
        "The xylophone is stored upstairs.",
        "who is where and what is over there",
    ]
    arms = {hit.memory.content.split()[0]: hit.arms for hit in result.hits}
    assert arms == {"The": {"keywords": 1}, "who": {"vectors": 1}}
    assert [hit.rank for hit in result.hits] == [1, 2]
    assert result.degraded == []


def test_without_a_model_the_words_alone_are_searched_and_the_answer_says_so(people: Database) -> None:
    about_ann(people, "Ann keeps tea in the blue box.")
    embedded(people)
    result = search_memories(people, TENANT, MemoryQuery(query="blue box"), embedder=None)
    assert contents(result) == ["Ann keeps tea in the blue box."]
    (problem,) = result.degraded
    assert problem.startswith("vectors: ")
    assert problem.endswith("only keywords are searched")


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcdefg"),
    ({"scope": "user"}, "abcg"),
    ({"user_id": "ann"}, "abg"),
    ({"agent_id": "bot"}, "f"),
    ({"types": ["preference", "decision"]}, "be"),
    ({"source": "form"}, "c"),
    ({"metadata": {"topic": "tea"}}, "g"),
    ({"metadata": {}}, ""),
    ({"min_importance": 7}, "d"),
]


def test_filters_narrow_what_is_found(people: Database) -> None:
    identities.link(people, TENANT, "test:ann", "ann")
    nobody = {"user_id": None, "subject": ""}
    about_ann(people, "a tea")
    about_ann(people, "b tea", type="preference")
    about_ann(people, "c tea", user_id="test:ben", source="form")
    about_ann(people, "d tea", scope="organization", importance=8, **nobody)
    about_ann(people, "e tea", scope="organization", type="decision", **nobody)
    about_ann(people, "f tea", scope="agent", agent_id="bot", **nobody)
    about_ann(people, "g tea", user_id="ann", metadata='{"topic": "tea"}')
    embedded(people)
    for fields, expected in FILTERS:
        names = sorted(content[0] for content in contents(found(people, "tea", **fields)))
        assert "".join(names) == expected, fields
    assert len(contents(found(people, "tea", limit=3))) == 3


def test_what_is_superseded_or_wrong_is_found_as_of_when_it_was_believed_and_marked(people: Database) -> None:
    porto = about_ann(people, "Ann lives in Porto.")
    faro = about_ann(people, "Ann lives in Faro.", said_at=day(5, 3), supersedes=porto)
    wrong = about_ann(people, "Ann lives in Braga.", said_at=day(4, 3))
    change(people, wrong, retracted_at=day(4, 20))
    embedded(people)

    def believed(**fields: Any) -> list[str]:
        return sorted(contents(found(people, "where does Ann live?", **fields)))

    assert believed() == ["Ann lives in Faro."]
    assert believed(as_of=day(2, 1)) == []
    assert believed(as_of=day(4, 10)) == ["Ann lives in Braga.", "Ann lives in Porto."]
    (then,) = [hit.memory for hit in found(people, "Porto", as_of=day(4, 25)).hits]
    assert (then.id, then.superseded_by, then.superseded_at) == (porto, faro, day(5, 3))
    # a list says the same
    for as_of, ids in ((None, [faro]), (day(4, 25), [porto]), (day(4, 10), [wrong, porto])):
        assert [each.id for each in statements.listing(people, TENANT, MemoryFilter(as_of=as_of))] == ids
    everything = statements.listing(people, TENANT, MemoryFilter(superseded=True))
    assert [(each.id, each.superseded_by, each.retracted_at) for each in everything] == [
        (wrong, None, day(4, 20)),
        (faro, None, None),
        (porto, faro, None),
    ]


def test_in_a_chat_only_what_may_be_shown_there_is_found(people: Database) -> None:
    porto = about_ann(people, "Ann lives in Porto.")
    about_ann(people, "Ann lives in Faro.", learned_in=ALONE, said_at=day(4, 3), supersedes=porto)
    both = about_ann(people, "Ann lives with a cat.", learned_in=ALONE, also_in=[HOUSE], said_at=day(3, 3))
    with people.tenant(TENANT) as connection:
        connection.exec_driver_sql(
            "INSERT INTO memory_evidence (tenant_id, memory_id, message_id, session_id, chat_id, sender_id, said_at, "
            "content, confidence, learned_by) VALUES (%s, %s, 1, 0, %s, 'test:ann', %s, 'x', 1, 'rules-v1'), "
            "(%s, %s, 2, 0, %s, 'test:ann', %s, 'x', 1, 'rules-v1')",
            (TENANT, both, ALONE, day(3, 3), TENANT, both, HOUSE, day(5, 3)),
        )
    document = {"type": "document", "document_id": "lease", "chunk_index": 0, "learned_in": None}
    about_ann(people, "where Ann lives until October", **document)
    embedded(people)

    def told(chat: str, user: str | None, **fields: Any) -> dict[str, tuple[Any, Any]]:
        where = {"chat_id": chat} | ({"user_id": user} if user else {}) | fields
        by_search = {hit.memory.content: hit.memory for hit in found(people, "where Ann lives", **where).hits}
        listed = statements.listing(people, TENANT, MemoryFilter.model_validate(where))
        assert {each.content: each for each in listed} == by_search
        return {content: (memory.learned_in, memory.said_at) for content, memory in by_search.items()}

    group = {"Ann lives in Porto.": (HOUSE, day(3, 3)), "Ann lives with a cat.": (HOUSE, day(5, 3))}
    assert told(HOUSE, None) == told(HOUSE, "test:ann") == group
    # said in the group in May
    assert told(HOUSE, None, as_of=day(4, 20)) == {"Ann lives in Porto.": (HOUSE, day(3, 3))}
    assert told(ALONE, "test:ann") == {
        "Ann lives in Faro.": (ALONE, day(4, 3)),
        "Ann lives with a cat.": (ALONE, day(3, 3)),
        "where Ann lives until October": (None, day(3, 3)),
    }
    # an operator sees the tenant's
    assert len(found(people, "where Ann lives").hits) == 3
    with pytest.raises(NotFound, match="there is no chat test:nowhere"):
        found(people, "where", chat_id="test:nowhere")


def test_what_answers_nothing_is_not_found_unless_all_is_asked_for(people: Database) -> None:
    for content in ("Ann plays the cello.", "Ann moved to Porto."):
        about_ann(people, content)
    embedded(people)
    vain = found(people, "Which cheese goes with figs?")
    assert (vain.hits, vain.evidence) == ([], "none")
    assert len(contents(found(people, "Does she play the cello?"))) == 1
    assert len(contents(found(people, "Does she play the cello?", fill=True))) == 2
