"""Diagnose the embedding spaces, their indexes and the model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.operations.doctor.finding import Finding


@dataclass(frozen=True, kw_only=True)
class Spaces:
    """The embedding spaces, and the embedder that the settings name."""

    active: str | None
    building: Sequence[str]
    embedder: str
    # the embedder's space as stored: `active`, `building`, `retired`, or `other` where the name fits and no more
    embedder_status: str | None
    # of messages' vectors: not there though a chat is large enough, and there though none is
    missing_indexes: Sequence[str] = ()
    unread_indexes: Sequence[str] = ()
    # rows in retired spaces, by the space's name
    retired_vectors: Mapping[str, int] | None = None
    # why the model cannot be used; none: it can, or was not tried
    model_problem: str | None = None


def findings(spaces: Spaces) -> Iterator[Finding]:
    """Yield what is wrong with the spaces and the settings' embedder."""
    if spaces.active is None:
        yield Finding(
            check="space",
            severity="error",
            what="no embedding space is active",
            why="Nothing is embedded or found by meaning.",
            remedy="Run `backscroll db upgrade` with the settings of the embedder.",
        )
    elif spaces.embedder_status in {None, "other", "retired"}:
        yield Finding(
            check="space",
            severity="error",
            what=f"the settings embed into {spaces.embedder}, and searches compare in {spaces.active}",
            why="Vectors of two spaces cannot be compared: new messages are not embedded, questions find nothing.",
            remedy="Set BACKSCROLL_EMBEDDING_PROVIDER and _MODEL as they were, or run `backscroll db upgrade` "
            "to make the new space.",
        )
    elif spaces.embedder_status == "building":
        yield Finding(
            check="space",
            severity="warning",
            what=f"the settings embed into {spaces.embedder}, which is still being built beside {spaces.active}",
            why="Searches compare in the active space, which gets nothing new from this embedder.",
            remedy="Fill it with `backscroll backfills start embed`, then make it the active one.",
        )
    if spaces.model_problem:
        yield Finding(
            check="model",
            severity="error",
            what=f"the embedding model cannot be used: {spaces.model_problem}",
            why="Messages wait for their vectors, and search goes by keywords.",
            remedy="See that the model is installed or its provider answers, and that its settings are right; one "
            "of the hub is fetched at its first use, not by the doctor.",
        )
    if spaces.missing_indexes:
        yield Finding(
            check="index",
            severity="warning",
            what=f"a chat is large enough for an index of vectors: {', '.join(spaces.missing_indexes)} is missing",
            why="Searches in this chat compare with all of its vectors, which takes longer the more it has.",
            remedy="Run `backscroll doctor --fix` with BACKSCROLL_OWNER_DATABASE_URL set: it is built beside "
            "running work.",
            fixable=True,
        )
    if spaces.unread_indexes:
        yield Finding(
            check="index",
            severity="warning",
            what=f"no chat is large enough for the index {', '.join(spaces.unread_indexes)}",
            why="It costs 3 ms and more for every message that is embedded, and no search reads it.",
            remedy="Run `backscroll doctor --fix` with BACKSCROLL_OWNER_DATABASE_URL set: it is dropped.",
            fixable=True,
        )
    for name, count in (spaces.retired_vectors or {}).items():
        if count:
            yield Finding(
                check="retired",
                severity="warning",
                what=f"{count:,} vectors lie in the retired space {name}",
                why="They take room, and no search reads them.",
                remedy="Delete them once you will not go back to it: DELETE FROM …_vectors WHERE space_id = ….",
            )
