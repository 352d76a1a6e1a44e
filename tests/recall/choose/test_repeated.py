"""What a context leaves out as said already, and what only looks like it."""

import pytest

from tests.recall.found import assembled, hit, lines, memory, passage


@pytest.mark.parametrize(
    ("form", "said", "corrected"),
    [
        ("Hello all, training is on thursdays at {} in the north hall, be on time", "18:30", "19:15"),
        ("the ferry to the island goes {}on sunday at noon from pier four if it is dry", "", "not "),
    ],
)
def test_a_correction_is_shown_beside_what_it_corrects(form: str, said: str, corrected: str) -> None:
    said, corrected = form.format(said), form.format(corrected)
    found = assembled("when is it?", [hit(1, said, 3.0), hit(2, corrected, 2.0), hit(3, said + "!", 1.0)])
    # what is only said again is not, nor beside a match
    assert lines(found, "exchanges") == [f"Ann: {said}", f"Ann: {corrected}"]


def test_a_statement_makes_way_for_a_message_or_a_better_statement_only_if_their_numbers_agree() -> None:
    fee = "The fee for the boat is {} euros a year, to be paid until the first of May"
    message = hit(1, fee.format(240), 3.0)
    memories = [memory(n, fee.format(euros), 1 - n / 10) for n, euros in enumerate((240, 260, 280))]
    found = assembled("what is the fee for the boat?", [message], memories=memories)
    assert lines(found, "exchanges") == [f"Ann: {fee.format(240)}"]
    shown = [line.partition("] ")[2] for line in lines(found, "memories")]
    assert shown == [fee.format(260), fee.format(280)]


@pytest.mark.parametrize("profile", ["balanced", "ask"])
def test_what_a_passage_and_a_memory_say_is_shown_once(profile: str) -> None:
    said = "The boat club's fee is 240 euros a year, to be paid until the first of May"
    known = [
        passage(said),
        memory(2, f"{said}.", 0.9, cosine=0.6),
        memory(3, said.replace("240", "260"), 0.8),
    ]
    found = assembled("what is the fee of the boat club?", memories=known, profile=profile, explain=True)
    assert found.text.count("240 euros") == 1
    assert found.text.count("260 euros") == 1
    assert [each.reason for each in found.explain.dropped] == ["duplicate"]
