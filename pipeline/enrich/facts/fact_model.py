"""Extract facts by a language model: in one call, or several for a session longer than the model's window."""

from collections.abc import Sequence
from datetime import UTC, tzinfo
from functools import partial

from pipeline.enrich.facts import fact_answers, fact_prompts
from pipeline.enrich.model_calls import ModelCaller
from pipeline.enrich.protocols import NOWHERE, People, Source
from pipeline.enrich.summaries import prompts
from schemas.memory.facts import Fact, KnownFact
from schemas.sessions import Message


class LanguageModelExtractor(ModelCaller):
    """Ask the model, repair an answer once, and drop facts that the transcript does not state."""

    def extract(
        self,
        messages: Sequence[Message],
        *,
        people: People,
        known: Sequence[KnownFact] = (),
        time_zone: tzinfo = UTC,
        source: Source = NOWHERE,
        max_facts: int = 3,
    ) -> list[Fact]:
        """Return facts as `FactExtractor` does; a session longer than the window is read in parts."""
        answer_tokens = max(fact_prompts.answer_tokens(self._context_tokens, max_facts), self._answer_tokens)
        room = fact_prompts.room_for_data(self._context_tokens, answer_tokens)
        known = fact_prompts.fitting(known, time_zone, room)
        room -= fact_prompts.known_tokens(known, time_zone)
        runs = prompts.divided([prompts.clipped(message, room // 2) for message in messages], room)
        facts: list[Fact] = []
        for run in runs:
            # a bot's words are never learned, so a part without people's need not be read
            if any(message.role == fact_prompts.PERSON for message in run):
                facts += self._ask(run, people, known, time_zone, source, max_facts, answer_tokens)
        return fact_answers.chosen(facts, messages, max_facts)

    def _ask(
        self,
        run: Sequence[Message],
        people: People,
        known: Sequence[KnownFact],
        time_zone: tzinfo,
        source: Source,
        max_facts: int,
        answer_tokens: int,
    ) -> list[Fact]:
        """Ask for the facts of messages, and once more if the answer cannot be used. Raises `InvalidAnswer`."""
        prompt = fact_prompts.fact_prompt(
            run,
            known,
            people=people,
            time_zone=time_zone,
            language=source.language,
            max_facts=max_facts,
            max_tokens=answer_tokens,
        )
        read = partial(
            fact_answers.read,
            messages=run,
            people=people,
            known=known,
            time_zone=time_zone,
            language=source.language,
        )
        return self._answer(prompt, read, purpose="extract", source=source)
