"""The profiles of contexts, in words: `pipeline.recall.ask.profiles` has their numbers."""

PURPOSES: dict[str, str] = {
    "balanced": (
        "For any bot, the default: the latest messages, and the sessions, messages, memories and documents "
        "that fit the question best."
    ),
    "group": (
        "For group chats in which the last days matter most: the latest messages, and twenty earlier ones "
        "with neighbours, the newer the better; no memories, no documents."
    ),
    "ask": (
        "For an assistant that answers from what it was told to remember: three memories, five passages "
        "and the latest messages; no earlier talk."
    ),
    "rag": (
        "For questions about the last weeks: the five messages most like the question, worth 5 % less with "
        "each day of age, and up to 4,096 tokens of the latest ones; no summaries, no memories."
    ),
    "agent": (
        "For agents that work in threads of their own (`session_key`): the latest messages, ten earlier "
        "ones, and memories of every scope; no summaries."
    ),
    "contextual": (
        "For a look back at whole topics: the best messages of the three sessions that fit best, with "
        "neighbours, and two related sessions; no latest messages, no memories."
    ),
}
"""Who each profile is for and what it shows, for help, descriptions and the guide."""
