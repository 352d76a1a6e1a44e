"""Who may see what was learned where: the rule, whoever is where."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.people.visibility import Place, may_show, place_of_question
from pipeline.store.chats.membership import Visible
from schemas.memory.memories import VisibilityPolicy

PEOPLE = st.frozensets(st.sampled_from(["ann", "bob", "cy", "zoe"]))
KINDS = st.sampled_from(["group", "direct", "thread"])


def places(name: str) -> st.SearchStrategy[Place]:
    return st.builds(Place, chat_id=st.just(name), kind=KINDS, persons=PEOPLE, others=st.booleans())


HERE, THERE = places("here"), places("there")
STRICT: VisibilityPolicy = "strict"


@given(THERE, HERE)
def test_nobody_sees_what_was_learned_where_they_were_not(there: Place, here: Place) -> None:
    if may_show(STRICT, there, here):
        assert here.persons
        assert here.persons <= there.persons
        assert not here.others


@given(THERE, HERE)
def test_nothing_of_a_direct_chat_is_ever_shown_in_a_group(there: Place, here: Place) -> None:
    if there.kind == "direct" and here.kind != "direct":
        assert not may_show(STRICT, there, here)


@given(KINDS, PEOPLE, st.booleans(), st.none() | st.sampled_from(["ann", "zoe"]))
def test_where_nobody_knows_who_listens_nothing_of_other_chats_is_shown(
    kind: str, members: frozenset[str], unnamed: bool, asker: str | None
) -> None:
    here = place_of_question("here", kind, members, unnamed=unnamed, asker=asker)
    everybody = Place(chat_id="there", kind="group", persons=frozenset(["ann", "bob", "cy", "zoe"]))
    direct = kind == "direct" and len(members | {asker} - {None}) == 1
    unknown = not direct and (unnamed or not members)
    assert may_show(STRICT, everybody, here) == (not unknown and bool(here.persons))
    assert here.persons == members | ({asker} if asker else set())


CHAT_IDS = st.sampled_from(["here", "there", "private", "elsewhere"])


@given(st.booleans(), st.frozensets(CHAT_IDS), st.none() | CHAT_IDS, st.lists(CHAT_IDS, max_size=3))
def test_what_was_said_in_several_chats_is_shown_by_one_of_them_and_never_said_to_be_from_another(
    everywhere: bool, chats: frozenset[str], learned_in: str | None, also_in: list[str]
) -> None:
    seen = Visible(everywhere=everywhere, chats=chats | {"here"})
    shown = seen.shows(learned_in, also_in)
    assert shown == (learned_in is None or any(map(seen.shows, [learned_in, *also_in])))
    source = seen.source(learned_in, also_in, "here")
    if source is not None:
        assert source in {learned_in, *also_in}
        assert seen.shows(source)
    else:
        assert not shown or learned_in is None
    assert ("here" in {learned_in, *also_in}) == (source == "here")
