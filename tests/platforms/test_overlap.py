"""Importing twice, or a longer export later, adds only what is new, and keeps the order."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.platforms.identity import ImportIds, sender_by_name
from pipeline.platforms.records import ImportOptions
from pipeline.platforms.whatsapp import whatsapp_export as whatsapp
from schemas.messages import MAX_ID_CHARS
from tests.platforms.reading import sort

OPTIONS = ImportOptions(title="House", time_zone="Europe/Lisbon")

said = st.tuples(
    st.integers(0, 5),
    st.sampled_from(["Ana", "Ben"]),
    st.sampled_from(["ok", "yes", "see you\nthere", "<Media omitted>", "a: b"]),
)
chats = st.lists(said, max_size=30).map(lambda messages: sorted(messages, key=lambda message: message[0]))


def export(messages: list[tuple[int, str, str]]) -> list[str]:
    text = "\n".join(f"31.12.23, 21:{minute:02} - {who}: {text}" for minute, who, text in messages)
    return text.splitlines()


@given(chats, chats)
def test_a_longer_export_names_the_old_messages_as_before(
    earlier: list[tuple[int, str, str]], later: list[tuple[int, str, str]]
) -> None:
    later = [(minute + 5, who, text) for minute, who, text in later]
    short = sort(whatsapp.parse(export(earlier), OPTIONS))
    long = sort(whatsapp.parse(export(earlier + later), OPTIONS))
    assert [(m.external_id, m.position) for m in long.messages[: len(earlier)]] == [
        (m.external_id, m.position) for m in short.messages
    ]
    assert len(set(long.ids)) == len(earlier) + len(later)


@given(chats, st.integers(0, 30), st.integers(0, 30))
def test_exports_cut_anywhere_add_up_to_the_whole(
    messages: list[tuple[int, str, str]], first_end: int, second_start: int
) -> None:
    # a phone exports the latest messages only: the second export may begin in the middle of a minute
    first_end, second_start = max(first_end, second_start), min(first_end, second_start)
    first = sort(whatsapp.parse(export(messages[:first_end]), OPTIONS)).ids
    second = sort(whatsapp.parse(export(messages[second_start:]), OPTIONS)).ids
    # at most as many as were written, and none of an export is lost
    assert len({*first, *second}) <= len(messages)
    assert len(set(first)) == len(first)
    assert len(set(second)) == len(second)


def test_derived_ids_are_those_that_earlier_versions_derived() -> None:
    ids = ImportIds()
    names = [
        ids.names("whatsapp:Ana", "2024-01-13T10:00:00", "hi", ["2024-01-14T10:00:00"]) for _ in range(2)
    ]
    assert [own for own, _ in names] == ["import:789ae5ca3393bcab", "import:d2b54badadd1344b"]
    # what it would be called at another time is what it is called there
    there = ImportIds()
    assert [other for _, other in names] == [
        there.names("whatsapp:Ana", "2024-01-14T10:00:00", "hi")[0] for _ in range(2)
    ]


NAMES = ["Анна", "王芳", "سارة", "Zoë 🦊", "Ana/Bo", "Ana%2FBo", "Ana@Müller", "長" * 255, "長" * 254 + "短"]


def test_no_two_people_of_any_chats_share_an_id() -> None:
    titles = ["Müller", "Müller@Müller", "A/B", "A%2FB", "集" * 240]
    chats = ["app:Müller", *(f"signal:{title}" for title in titles)]
    ids = [sender_by_name("signal", chat, name) for chat in chats for name in NAMES]
    assert len(set(ids)) == len(chats) * len(NAMES)
    assert all(each.startswith("signal:") and len(each) <= MAX_ID_CHARS and "/" not in each for each in ids)
