"""A session's summary, as summarizers return it and the sessions table stores it."""

from itertools import chain
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

SummaryLine = Annotated[str, Field(max_length=300)]


class Summary(BaseModel):
    """A session's summary: 3–6 short factual sentences, and lists of what they name."""

    model_config = ConfigDict(frozen=True)

    # names kept, dates absolute, nothing that the transcript does not say
    summary: Annotated[str, Field(min_length=1, max_length=4000)]
    topics: Annotated[list[SummaryLine], Field(max_length=12)] = Field(default_factory=list)
    decisions: Annotated[list[SummaryLine], Field(max_length=12)] = Field(default_factory=list)
    open_questions: Annotated[list[SummaryLine], Field(max_length=12)] = Field(default_factory=list)
    action_items: Annotated[list[SummaryLine], Field(max_length=12)] = Field(default_factory=list)
    entities: Annotated[list[SummaryLine], Field(max_length=24)] = Field(default_factory=list)

    def search_text(self) -> str:
        """Return everything in it as one text, for keyword search.

        >>> Summary(summary="Ann fixed it.", topics=["boiler"]).search_text()
        'Ann fixed it.\\nboiler'
        """
        lists = (self.topics, self.decisions, self.open_questions, self.action_items, self.entities)
        return "\n".join([self.summary, *chain.from_iterable(lists)])
