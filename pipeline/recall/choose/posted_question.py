"""Recognize the question itself among the messages of its chat: a bot stores it before it asks. Pure."""

from dataclasses import dataclass
from functools import cached_property

from pipeline.recall.ask.questions import Questions
from pipeline.recall.find.candidate import Candidate
from pipeline.recall.rank.ranked import Ranked
from pipeline.store.search.prelude import Prelude
from pipeline.text.cues import addressing
from schemas.sessions import Message


@dataclass(frozen=True)
class PostedQuestion:
    """The question as a message, with or without a mention of the bot; the same words from others are not it."""

    questions: Questions
    results: Ranked

    @classmethod
    def of(cls, query: str, prelude: Prelude, results: Ranked) -> "PostedQuestion":
        """Return the question of a context that is made of these results."""
        language, people = prelude.chat.language, prelude.names
        questions = Questions.of(query, language, people=people, asker=prelude.asker, newest=prelude.newest)
        return cls(questions, results)

    def is_found(self, candidate: Candidate) -> bool:
        """Tell whether a hit is the question, or the same one asked before."""
        return self.questions.may_be(candidate.id, candidate.speaker) and self._has_its_words(candidate.text)

    def is_recent(self, message: Message) -> bool:
        """Tell whether one of the latest messages is the question, or the same one asked before.

        If it asks nothing, only the last message can be it: an earlier “yes” of the asker stays an answer.
        """
        return (self.questions.asks or message.id in self._last) and self._has_its_words(message.content)

    @cached_property
    def _last(self) -> set[int | None]:
        """The last message of the chat, and the asker's."""
        by_asker = (message.id for message in self.results.recent if message.speaker == self.questions.asker)
        return {self.questions.newest, next(by_asker, None)}

    @cached_property
    def _names(self) -> frozenset[str]:
        bots = {hit.candidate.speaker for hit in self.results.ranked if hit.candidate.role == "assistant"}
        names = addressing.names_of(bots | {m.speaker for m in self.results.recent if m.role == "assistant"})
        return names | self.questions.names

    @cached_property
    def _question(self) -> str:
        return addressing.said(self.questions.query, self.questions.language, self._names)

    def _has_its_words(self, text: str) -> bool:
        return addressing.repeats(text, self._question, self.questions.language, self._names)
