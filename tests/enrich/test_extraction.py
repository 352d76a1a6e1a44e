"""Extraction reads no more of a long session than it can in its time, and one session at a time."""

import time
from threading import Thread

import pytest

from pipeline.enrich.facts import fact_prompts
from pipeline.enrich.protocols import SummarySource
from pipeline.enrich.summaries import extractive
from tests.text.builders import message
from tests.waiting import ended


def test_of_very_much_text_the_beginning_of_each_message_is_read_and_the_summary_says_so() -> None:
    # Given a thousand messages of two thousand letters, of which each begins with what it is about
    said = [message(f"Тема № {n}. " + "очень " * 330 + "концовка.", id=n, minute=n) for n in range(1000)]
    # When they are summarized, then no more is read than of the same messages cut
    cut = [each._replace(content=each.content[:200]) for each in said]
    summary = extractive.summarize(said, language="russian")
    assert "the first 200 characters of each message" in summary.summary
    assert summary.topics == extractive.summarize(cut, language="russian").topics
    # and what fits is read whole
    few = extractive.summarize(said[:50], language="russian")
    assert "characters of each message" not in few.summary


def test_threads_extract_one_after_another_and_keep_their_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_prompts, "WAIT_SECONDS", 0.02)
    inside, renewed, most = [], [], []
    source = SummarySource(before_call=lambda: renewed.append(1))

    def extract() -> None:
        with fact_prompts.extraction_turn(source):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()

    threads = [Thread(target=extract) for _ in range(6)]
    for thread in threads:
        thread.start()
    ended(*threads)
    assert most == [1] * 6
    # those that waited said meanwhile that they are alive
    assert renewed
