"""Who may see what was learned where: the rule, whoever is where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.people.visibility import Place, is_alone, may_show, place_of_question, visible
from pipeline.store.chats.membership import Visible
from schemas.memories import VisibilityPolicy

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


@pytest.mark.parametrize(
    ("here", "asker", "alone"),
    [
        (Place(chat_id="here", kind="direct", persons=frozenset(["ann"])), "ann", True),
        (Place(chat_id="here", kind="thread", persons=frozenset(["ann"])), "ann", True),
        # more may read along in a group than have spoken
        (Place(chat_id="here", kind="group", persons=frozenset(["ann"])), "ann", False),
        (Place(chat_id="here", kind="direct", persons=frozenset(["ann", "bob"])), "ann", False),
        (Place(chat_id="here", kind="direct", persons=frozenset(["ann"]), others=True), "ann", False),
        (Place(chat_id="here", kind="direct", persons=frozenset(["ann"])), "bob", False),
        # nobody knows who asks
        (Place(chat_id="here", kind="direct", persons=frozenset(["ann"])), None, False),
        (Place(chat_id="here", kind="direct", persons=frozenset()), None, False),
    ],
)
def test_somebodys_own_documents_are_shown_where_nobody_else_listens(
    here: Place, asker: str | None, *, alone: bool
) -> None:
    assert is_alone(here, asker) == alone


PRIVATE = Place(chat_id="private", kind="direct", persons=frozenset(["ann"]))
ALONE = Place(chat_id="alone", kind="group", persons=frozenset(["ann"]))
PAIR = Place(chat_id="pair", kind="group", persons=frozenset(["ann", "bob"]))
UNNAMED = Place(chat_id="unnamed", kind="group", persons=frozenset(["ann"]), others=True)


@pytest.mark.parametrize(
    ("policy", "here", "shown"),
    [
        ("strict", PRIVATE, {"private", "alone", "pair", "unnamed"}),
        # a group where only one person has spoken may be an undeclared direct chat
        ("strict", ALONE, {"alone", "pair", "unnamed"}),
        ("strict", PAIR, {"pair"}),
        ("strict", UNNAMED, {"unnamed"}),
        ("tenant", UNNAMED, {"private", "alone", "pair", "unnamed"}),
        ("chat", PRIVATE, {"private"}),
    ],
)
def test_what_is_shown_where(policy: VisibilityPolicy, here: Place, shown: set[str]) -> None:
    everything = [PRIVATE, ALONE, PAIR, UNNAMED]
    found = visible(policy, here, everything)
    assert found.chats == shown
    # of a place that is not among them, only the whole tenant's policy shows anything
    assert found.everywhere == (policy == "tenant")
    # and a place shows its own, whether or not it was looked up
    assert here.chat_id in visible(policy, here, []).chats
