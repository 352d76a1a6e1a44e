"""What a session was about, as the summarizers return it and the sessions table stores it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Item = Annotated[str, Field(max_length=300)]


class Summary(BaseModel):
    """A session's summary: 3–6 short factual sentences and what was found beside them."""

    model_config = ConfigDict(frozen=True)

    # names kept, dates absolute, nothing that the transcript does not say
    summary: Annotated[str, Field(min_length=1, max_length=4000)]
    topics: Annotated[list[Item], Field(max_length=12)] = Field(default_factory=list)
    decisions: Annotated[list[Item], Field(max_length=12)] = Field(default_factory=list)
    open_questions: Annotated[list[Item], Field(max_length=12)] = Field(default_factory=list)
    action_items: Annotated[list[Item], Field(max_length=12)] = Field(default_factory=list)
    entities: Annotated[list[Item], Field(max_length=24)] = Field(default_factory=list)

    def search_text(self) -> str:
        """Everything in it as one text, for keyword search.

        >>> Summary(summary="Ann fixed it.", topics=["boiler"]).search_text()
        'Ann fixed it.\\nboiler'
        """
        parts = [
            self.summary,
            *self.topics,
            *self.decisions,
            *self.open_questions,
            *self.action_items,
            *self.entities,
        ]
        return "\n".join(parts)
