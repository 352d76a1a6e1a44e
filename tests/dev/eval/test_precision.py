"""How much of a context is about the question: what counts as such, and how it is summed up."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from ops.dev.eval import precision
from ops.dev.eval.precision import NEAR, ContextFigures, PlacedMessage, Tally, figures, near_evidence, table
from schemas.context import Block, BlockKind, Context, ContextItem, ItemKind

# Ten messages of one session and three of the next, by id; the external ids are letters.
PLACED = {
    str(100 + n): PlacedMessage(letter, *((1, n) if n < 10 else (2, n - 10)))
    for n, letter in enumerate("abcdefghijklm")
}
IDS = {message.external_id: each for each, message in PLACED.items()}


def line(each: str, text: str = "ja", kind: ItemKind = "message") -> ContextItem:
    return ContextItem(kind=kind, id=each, text=text, reason="")


def context(blocks: Mapping[BlockKind, Sequence[ContextItem]], used: int = 500) -> Context:
    shown = [
        Block(kind=kind, tokens=9, chars=9, text="", items=list(items)) for kind, items in blocks.items()
    ]
    return Context(context_id="c", text="", messages=[], blocks=shown, used_tokens=used, budget=2000)


def counted(blocks: Mapping[BlockKind, Sequence[ContextItem]], *evidence: str) -> ContextFigures:
    return figures(context(blocks), evidence, PLACED)


def test_two_messages_around_evidence_are_about_the_question_and_none_of_another_session() -> None:
    assert near_evidence(["e"], PLACED) == {IDS[each] for each in "cdefg"}
    # the last of a session, with the first of the next right behind it
    assert near_evidence(["j"], PLACED) == {IDS[each] for each in "hij"}
    assert near_evidence([], PLACED) == near_evidence(["nowhere"], PLACED) == frozenset()


def test_tokens_of_lines_count_wherever_they_stand_and_once_without_recent_talk() -> None:
    # Given evidence with a neighbour among the exchanges, a line of recent talk, and what nobody recalled
    shown = counted(
        {
            "guardrails": [line(IDS["a"], "be kind, be brief, be right")],
            "exchanges": [line(IDS["e"], "der Mast ist in Kappeln"), line(IDS["i"], "ага")],
            "history": [line(IDS["f"], "ありがとう"), line(IDS["m"], "tchau")],
            "question": [line("900", "wo ist der Mast?")],
        },
        "e",
    )
    # Then lines near evidence count as right, by the estimate of their tokens
    assert shown.tokens == Tally(right=6 + 6, shown=6 + 3 + 6 + 2)
    assert shown.tokens_without_history == Tally(right=6, shown=6 + 3)


def test_a_session_is_opened_once_however_many_of_its_messages_are_shown() -> None:
    shown = counted(
        {"exchanges": [line(IDS["a"]), line(IDS["b"]), line(IDS["l"])], "history": [line(IDS["m"])]}, "k"
    )
    assert shown.sessions == Tally(right=1, shown=2)


def test_what_is_no_message_is_shown_and_never_about_the_question() -> None:
    shown = counted(
        {
            "exchanges": [line("1", "on parle du bateau", "session"), line(IDS["e"])],
            "memories": [line("near", "Lea hat ein Boot", "memory")],
        },
        "e",
    )
    assert 0 < shown.tokens.right < shown.tokens.shown


def test_tokens_are_means_over_contexts_and_what_is_shown_is_counted_together() -> None:
    # Given a context with everything, and one that shows next to nothing
    full = counted(
        {
            "memories": [line("near", "Lea", "memory"), line("far", "Mo", "memory")],
            "exchanges": [line("2", "sopa", "session"), line(IDS["e"]), line(IDS["a"])],
        },
        "e",
    )
    empty = figures(context({}, used=100), ["e"], PLACED)
    # When they are summed up, beside one of a question without an answer
    found = table([full, empty], [figures(context({}, used=300), [], PLACED)])
    # Then what shows nothing is in no share
    assert found["used_tokens"] == 300
    assert found["tokens"] == found["tokens_without_history"] == 0.2
    assert found["sessions"] == {"share": 1, "right": 1, "shown": 1}
    assert found["without_answer"] == {"questions": 1, "used_tokens": 300}


def test_of_no_contexts_nothing_is_known() -> None:
    found = table([], [])
    assert found["used_tokens"] is found["tokens"] is found["sessions"]["share"] is None
    assert found["without_answer"] == {"questions": 0, "used_tokens": None}


LETTERS = st.sampled_from("abcdefghijklm")


@given(st.sets(LETTERS), st.sets(LETTERS))
def test_more_evidence_never_makes_less_of_a_context_about_the_question(
    some: set[str], more: set[str]
) -> None:
    near = near_evidence(some, PLACED)
    assert {IDS[each] for each in some} <= near <= near_evidence(some | more, PLACED)
    assert len(near) <= len(some) * (2 * NEAR + 1)


@given(st.lists(LETTERS), st.lists(LETTERS), st.sets(LETTERS))
def test_what_is_right_is_never_more_than_what_is_shown(
    exchanges: list[str], history: list[str], evidence: set[str]
) -> None:
    blocks: dict[BlockKind, list[ContextItem]] = {
        "exchanges": [line(IDS[each]) for each in exchanges],
        "history": [line(IDS[each]) for each in history],
    }
    shown = precision.figures(context(blocks), evidence, PLACED)
    for tally in (shown.tokens, shown.tokens_without_history, shown.sessions):
        assert 0 <= tally.right <= tally.shown
    assert shown.tokens_without_history.shown <= shown.tokens.shown
    # all is right if all is evidence
    everything = precision.figures(context(blocks), set(IDS), PLACED)
    assert everything.tokens.share in {None, 1}
