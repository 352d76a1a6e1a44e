"""The profiles of contexts, in words: `pipeline.recall.profiles` has their numbers."""

PURPOSES: dict[str, str] = {
    "balanced": (
        "For any bot, the default: the latest messages, and the sessions, messages, memories and "
        "documents that fit best."
    ),
    "group": (
        "For groups in which the last days matter most: the latest messages and twenty earlier "
        "ones; no memories or documents."
    ),
    "ask": (
        "For assistants that answer from what they were told: three memories, five passages, the "
        "latest messages."
    ),
    "rag": (
        "For questions about the last weeks: the five messages most like the question, worth 5 % "
        "less with each day of age, and many latest ones."
    ),
    "agent": (
        "For agents with threads of their own (`session_key`): the latest messages, ten earlier "
        "ones, memories of every scope."
    ),
    "contextual": (
        "For a look back at whole topics: the best messages of three sessions, and two related sessions."
    ),
}
"""Who each profile is for and what it shows, for help, descriptions and the guide."""
