"""How much of a context is about the question: what counts as such, and how it is summed up."""

from collections.abc import Mapping, Sequence

from ops.dev.eval.measures import PlacedMessage, Row, means, near_evidence, precision
from schemas.context import Block, BlockKind, Context, ContextItem, ItemKind

# Ten messages of one session and three of the next, by id; the external ids are letters.
PLACED = {
    str(100 + n): PlacedMessage(letter, *((1, n) if n < 10 else (2, n - 10)))
    for n, letter in enumerate("abcdefghijklm")
}
IDS = {message.external_id: each for each, message in PLACED.items()}


def line(each: str, text: str = "ja", kind: ItemKind = "message") -> ContextItem:
    return ContextItem(kind=kind, id=each, text=text, reason="")


def counted(blocks: Mapping[BlockKind, Sequence[ContextItem]], *evidence: str, used: int = 500) -> Row:
    shown = [
        Block(kind=kind, tokens=9, chars=9, text="", items=list(items)) for kind, items in blocks.items()
    ]
    context = Context(context_id="c", text="", messages=[], blocks=shown, used_tokens=used, budget=2000)
    return precision(context, evidence, PLACED)


def test_two_messages_around_evidence_are_about_the_question_and_none_of_another_session() -> None:
    assert near_evidence(["e"], PLACED) == {IDS[each] for each in "cdefg"}
    # the last of a session, with the first of the next right behind it
    assert near_evidence(["j"], PLACED) == {IDS[each] for each in "hij"}
    assert near_evidence([], PLACED) == near_evidence(["nowhere"], PLACED) == frozenset()


def test_tokens_of_lines_count_wherever_they_stand_but_for_what_nobody_recalled() -> None:
    # Given evidence with a neighbour of it in recent talk, what is no message, and what nobody recalled
    shown = counted(
        {
            "guardrails": [line(IDS["a"], "be kind, be brief, be right")],
            "memories": [line("near", "ага", "memory")],
            "exchanges": [line(IDS["e"], "der Mast ist in Kappeln"), line(IDS["i"], "ага")],
            "history": [line(IDS["f"], "ありがとう"), line(IDS["m"], "tchau")],
            "question": [line("900", "wo ist der Mast?")],
        },
        "e",
    )
    # Then lines near evidence count as right, by the estimate of their tokens
    assert shown["about"] == (6 + 6) / (3 + 6 + 3 + 6 + 2)
    # And over contexts it is the mean share of those that show lines
    assert means([shown, counted({}, "e", used=0)])["about"] == round(shown["about"], 4)
