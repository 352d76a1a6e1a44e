"""Check the embedding spaces: their model, its languages, their indexes, and vectors left in retired ones."""

from collections import Counter
from collections.abc import Iterator

from pipeline.clients.model_languages import knows
from pipeline.operations.doctor.facts import Spaces
from pipeline.operations.doctor.finding import Finding, error, warning
from schemas.languages import spoken

LANGUAGES_SHOWN = 3
# Messages in languages unknown to the model, of those whose language is known, that are worth a warning.
FOREIGN_SHARE, FOREIGN_MESSAGES = 0.1, 100


def spaces(spaces: Spaces) -> Iterator[Finding]:
    if spaces.active is None:
        why = "Nothing is embedded or found by meaning."
        remedy = "Run `backscroll db upgrade` with the settings of the embedder."
        yield error("space", "no embedding space is active", why, remedy)
    elif spaces.embedder_status == "other":
        yield warning(
            "space",
            f"the settings give {spaces.embedder} other prefixes or dimensions than its vectors were made with",
            "Messages and questions are embedded as the stored vectors were; the settings change nothing.",
            "Leave them out, or fill a space of another name by `backscroll spaces add`.",
        )
    elif spaces.embedder_status != "building" and spaces.embedder != spaces.active:
        yield warning(
            "space",
            f"the settings name the embedder {spaces.embedder}, and searches compare in {spaces.active}",
            "Messages and questions are embedded by the model of the active space; the settings change nothing.",
            "Set BACKSCROLL_EMBEDDING_PROVIDER and _MODEL to that, or change the model by `backscroll spaces add`.",
        )
    if spaces.model_problem:
        yield error(
            "model",
            f"the embedding model cannot be used: {spaces.model_problem}",
            "Messages wait for their vectors, and search goes by keywords.",
            "Check that the model is installed or its provider answers, and that its settings are right; one "
            "of the hub is fetched at its first use, not by the doctor.",
        )
    if spaces.languages and not spaces.is_calibrated:
        yield warning(
            "calibration",
            f"the similarities of {spaces.active} were not measured",
            "Whether a chat knows what it is asked, and which memories answer, is judged by words only.",
            "It is measured with the next vectors; if this stays, see `space_not_calibrated` in the workers' log.",
        )
    fix = "Run `backscroll doctor --fix` with BACKSCROLL_OWNER_DATABASE_URL set: "
    if spaces.missing_indexes:
        yield warning(
            "index",
            f"a chat or library of documents is large: its index {', '.join(spaces.missing_indexes)} is missing",
            "Searches compare with all of its vectors, which takes longer the more it has.",
            fix + "it is built beside running work.",
            fixable=True,
        )
    if spaces.unread_indexes:
        yield warning(
            "index",
            f"no chat or library of documents is large enough for the index {', '.join(spaces.unread_indexes)}",
            "It slows down embedding, and no search reads it.",
            fix + "it is dropped.",
            fixable=True,
        )
    for name, count in spaces.retired_vectors.items():
        if count:
            yield warning(
                "retired",
                f"the retired space {name} has {count:,} vectors",
                "They take room, and no search reads them.",
                f"Run `backscroll spaces retire {name}`, which deletes them.",
            )


def languages(spaces: Spaces) -> Iterator[Finding]:
    known = {
        language: count
        for language, count in spaces.languages.items()
        if knows(spaces.model, language) is not None
    }
    foreign = Counter({name: count for name, count in known.items() if not knows(spaces.model, name)})
    if foreign.total() >= max(FOREIGN_MESSAGES, FOREIGN_SHARE * sum(known.values())):
        share = foreign.total() / sum(known.values())
        named = [spoken(language) for language, _ in foreign.most_common(LANGUAGES_SHOWN)]
        yield warning(
            "languages",
            f"{share:.0%} of the messages are in chats in {'; '.join(named)}, which {spaces.model} does not know",
            "They are found by their words, and hardly by their meaning.",
            "Change to the multilingual model by `backscroll spaces add multilingual`; if a chat is in another "
            "language than that, `backscroll chats language CHAT LANGUAGE` says so.",
        )
