"""The profiles of contexts, in words: `pipeline.recall.ask.profiles` has their numbers."""

PURPOSES: dict[str, str] = {
    "balanced": (
        "For any bot, and the default: the latest messages, and the sessions, messages, memories and "
        "documents that fit the question best."
    ),
    "group": (
        "For group chats in which the last days matter most: the latest messages, and twenty earlier ones "
        "between their neighbours, the newer the better; no memories, no documents."
    ),
    "ask": (
        "For an assistant that answers from what it was told to remember: three memories, five passages "
        "of documents and the latest messages; earlier talk is not searched."
    ),
    "rag": (
        "For questions about the talk of the last weeks: the five messages most like the question, if they "
        "are like it at all, worth 5 % less with each day of their age, and up to 4,096 tokens of the latest "
        "ones; no summaries, no memories."
    ),
    "agent": (
        "For agents that work in threads of their own (`session_key`): the latest messages, ten earlier "
        "ones, and memories of the session, the user, the agent and the organization; no summaries."
    ),
    "contextual": (
        "For a look back at whole topics: the three sessions that fit best, the best messages in them "
        "between their neighbours, and two related sessions; no latest messages, no memories."
    ),
}
"""Who each profile is for and what it shows, for help, descriptions and the README."""
