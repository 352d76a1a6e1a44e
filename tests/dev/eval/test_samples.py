"""The sample chats and their questions: what an evaluation over them takes for granted."""

import pytest

from ops.dev.eval.samples import CHATS, NAMES, UNANSWERABLE, SampleChat, catalogue, read_chat

FACTS = catalogue()
EVERY = [read_chat(name) for name in FACTS]


@pytest.mark.parametrize("sample", EVERY, ids=lambda sample: sample.name)
def test_evidence_holds_what_is_expected_and_nothing_unexpected(sample: SampleChat) -> None:
    contents = {message.external_id: message.content for message in sample.messages}
    assert len(contents) == len(sample.messages)
    times = [message.sent_at for message in sample.messages]
    assert times == sorted(times)
    questions = [case.question for case in sample.cases]
    assert len(set(questions)) == len(questions)
    for case in sample.cases:
        said = [contents[id_] for id_ in case.evidence]
        assert bool(case.evidence) == bool(case.tokens) == (case.kind != UNANSWERABLE), case
        assert all(any(token in content for content in said) for token in case.tokens), case
        for piece in case.unexpected:
            assert not any(piece in content for content in said), case
            # what the chat never says could not be shown
            assert any(piece in content for content in contents.values()), case


def test_the_catalogue_names_every_chat_and_no_other() -> None:
    files = {file.name.removesuffix(".jsonl") for file in CHATS.iterdir() if file.name.endswith(".jsonl")}
    assert set(FACTS) == files | set(NAMES)
    # what was tuned on before it was written down cannot judge
    assert all(FACTS[name].part == "fit" for name in NAMES)


def test_a_translation_has_the_messages_and_questions_of_its_original_in_their_order() -> None:
    by_name = {sample.name: sample for sample in EVERY}
    for sample in EVERY:
        if original := FACTS[sample.name].translation_of:
            other = by_name[original]
            assert [m.external_id for m in sample.messages] == [m.external_id for m in other.messages]
            assert [m.reply_to for m in sample.messages] == [m.reply_to for m in other.messages]
            assert [(c.kind, set(c.evidence)) for c in sample.cases] == [
                (c.kind, set(c.evidence)) for c in other.cases
            ]
