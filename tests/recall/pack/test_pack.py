"""A context is packed by worth: each line takes its tokens before any that is worth less, and none are overspent."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.choose.lines import ChosenLine, Frame
from pipeline.recall.pack.pack import pack
from pipeline.text.tokens import Count, estimate_line
from schemas.context import Block, BlockKind
from tests.recall.found import line

KINDS: list[BlockKind] = ["memories", "exchanges", "history"]
WORTHS = st.integers(0, 8).map(lambda eighths: eighths / 8)
BUDGETS = st.integers(0, 300)
# by the estimate, as bytes with the line's end, and as words
COUNTS: st.SearchStrategy[Count] = st.sampled_from(
    [estimate_line, lambda text: len(text.encode()) + 1, lambda text: len(text.split())]
)


@st.composite
def offered(draw: st.DrawFn) -> list[ChosenLine]:
    """Lines of several blocks, some under headings, some right after another."""
    return [
        line(
            draw(st.text("ab 好ж", min_size=1, max_size=60)),
            draw(WORTHS),
            number=number,
            block=draw(st.sampled_from(KINDS)),
            group=draw(st.sampled_from(["", "Monday", "Вторник"])),
            follows=draw(st.sampled_from([None, (), (number - 1,)])),
            may_be_cut=draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 15)))
    ]


@st.composite
def frames(draw: st.DrawFn) -> dict[BlockKind, Frame]:
    return {
        kind: Frame(
            heading=f"What is in {kind}:",
            cap=draw(st.none() | st.integers(0, 200)),
            share=draw(st.sampled_from([0.0, 0.4, 1.0])),
            contiguous=draw(st.booleans()),
        )
        for kind in KINDS
    }


def shown(blocks: list[Block]) -> list[int]:
    return [int(item.id) for block in blocks for item in block.items]


@given(offered(), frames(), BUDGETS, COUNTS)
def test_whatever_is_offered_no_budget_is_exceeded_and_nothing_gets_lost(
    lines: list[ChosenLine], around: dict[BlockKind, Frame], budget: int, count: Count
) -> None:
    blocks, dropped = pack(lines, around, budget, count)
    for block in blocks:
        frame = around[block.kind]
        assert block.tokens == count(block.text)
        assert block.tokens <= (budget if frame.cap is None else frame.cap)
        assert block.tokens <= frame.share * budget
        # in order of place
        places = [int(item.id) for item in block.items]
        assert places == sorted(places)
        assert all(item.text in block.text for item in block.items)
    assert sum(block.tokens for block in blocks) <= budget
    assert sorted([*shown(blocks), *(int(each.id) for each in dropped)]) == list(range(len(lines)))
    assert {each.reason for each in dropped} <= {"budget", "cap"}


@given(st.lists(WORTHS, max_size=15), BUDGETS)
def test_a_line_never_loses_its_place_to_one_worth_less(worths: list[float], budget: int) -> None:
    lines = [line("bread and butter", worth, number=number) for number, worth in enumerate(worths)]
    blocks, dropped = pack(lines, {"exchanges": Frame(heading="Said:")}, budget)
    least = min((worths[number] for number in shown(blocks)), default=1.0)
    assert all(worths[int(each.id)] <= least for each in dropped)
