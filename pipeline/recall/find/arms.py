"""Search for candidate messages, arm by arm.

The arms are the best by words, the best by vector, messages with a verbatim piece of the question, messages of the
times that it names, the best by or about people whom it names, the newest if it asks for these, the best of fitting
sessions, and in a large chat the nearest from sessions of people close to the asker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from sqlalchemy import Connection

from pipeline.recall.request import QueryTerms, Request
from pipeline.store.memories.memory_candidates import MemoryScope
from pipeline.store.search import arms, text_search
from pipeline.store.search.arms import NOTHING, Arms, SideArms
from pipeline.store.search.filters import MessageFilter
from pipeline.store.search.session_search import SessionLimits


class ArmLimits(NamedTuple):
    """Limits of the arms in a chat: higher in a large one, where more resembles the answer, and in a small one."""

    # messages that the arms of words and vectors find
    best: int
    # sessions whose messages are candidates
    sessions: SessionLimits


SMALL, LARGE = 400, 20_000
"""Messages below which a chat is small, so that nearly all of it is ranked, and from which on it is large."""
# By a chat's minimum number of messages, the largest first.
LIMITS: Mapping[int, ArmLimits] = {
    LARGE: ArmLimits(50, SessionLimits(read=1500, nearest=150, looked_into=16, messages=12)),
    5_000: ArmLimits(50, SessionLimits(read=1000, nearest=150, looked_into=12, messages=12)),
    SMALL: ArmLimits(35, SessionLimits(read=500, nearest=75, looked_into=8, messages=8)),
    0: ArmLimits(150, SessionLimits(read=500, nearest=75, looked_into=8, messages=8)),
}
# In a large chat, if the asker's affinity to others is known: fewer messages by anybody, more from sessions of people
# close to the asker.
AMONG_PEOPLE = ArmLimits(
    30, replace(LIMITS[LARGE].sessions, looked_into=12, close_sessions=100, close_messages=60)
)
# Messages that the arms of words and vectors find if half of the first search's hits are noise.
BEHIND_NOISE = 400
# Messages that each other arm finds.
CANDIDATES_PER_SIDE_ARM = 30
# Number of nearest messages in which those of somebody named are looked for.
NAMED_WITHIN = 3000
# Messages read of each time that a question names.
TIME_READ = 2000
# Messages with the words of a phrase or an identifier that are checked for it …
VERBATIM_READ = 1000
# … and the newest messages that are read if none of them contains it. All pieces of a query share both limits, so that
# eight take hardly longer than one.
VERBATIM_SCANNED = 20_000


def limits_of(request: Request) -> ArmLimits:
    """Return the limits for the size of the request's scope."""
    if request.snapshot.size >= LARGE and request.affinities:
        return AMONG_PEOPLE
    return next(limits for size, limits in LIMITS.items() if request.snapshot.size >= size)


def search_question(connection: Connection, request: Request, memories: MemoryScope | None) -> Arms:
    """Search for the question by words, by vector, by the summaries of sessions, and by what else it says."""
    limits = limits_of(request)
    if not request.filter.is_open_before:
        return _search(connection, request, request.queries[0], limits.best, memories)
    # the arms ignore an upper time limit; later messages are left out afterwards
    return _search(
        connection,
        request,
        request.queries[0],
        limits.best,
        memories,
        limits.sessions,
        _side_arms(request),
    )


def _side_arms(request: Request) -> SideArms:
    """Return the times, people and verbatim pieces of a question, and whether it wants the newest."""
    question = request.question
    pieces = [piece.words for piece in question.exact] if request.filter.is_open else []
    names = bool(question.speakers or request.named)
    newest = "now" in question.asks
    if not (pieces or question.times or names or newest):
        return NOTHING
    return SideArms(
        pieces=pieces,
        pieces_read=VERBATIM_READ // max(1, len(pieces)),
        times=question.times,
        read=TIME_READ,
        named=[*request.named, *request.lexemes] if names else [],
        speakers=question.speakers,
        within=NAMED_WITHIN,
        newest=newest,
        until=request.filter.until,
        limit=CANDIDATES_PER_SIDE_ARM,
    )


def _search(
    connection: Connection,
    request: Request,
    query: QueryTerms,
    limit: int,
    memories: MemoryScope | None,
    sessions: SessionLimits | None = None,
    side_arms: SideArms = NOTHING,
) -> Arms:
    return arms.search(
        connection,
        request.scope,
        query.lexemes,
        query.embedded,
        limit=limit,
        # sessions could bring messages that a filter leaves out
        sessions=sessions or replace(limits_of(request).sessions, looked_into=0, close_sessions=0),
        side_arms=side_arms,
        memories=memories,
    )


def search_queries(
    connection: Connection, request: Request, memories: MemoryScope | None, first: Arms | None = None
) -> tuple[list[Arms], dict[str, Sequence[int]]]:
    """Search by words and by vector: what each query found, the question first, and the best of all by the arm.

    The question itself is not searched again if `first` is what it found; without that more is searched for, as most of
    what was found is noise.
    """
    limit = limits_of(request).best if first else BEHIND_NOISE
    searches = [first] if first else []
    for query, share in _shares(request, limit)[len(searches) :]:
        searches.append(_search(connection, request, query, share, memories))
    if not request.filter.is_open:
        return searches, _filtered(connection, request, 2 * limit)
    return searches, {
        "keywords": list(dict.fromkeys(chain(*(search.by_word.scores for search in searches)))),
        "vectors": list(dict.fromkeys(chain(*(search.by_vector.cosines for search in searches)))),
    }


def _filtered(connection: Connection, request: Request, limit: int) -> dict[str, Sequence[int]]:
    """Search by words and by vector among the messages that the request's filter lets through."""
    chat_id, within = request.chat.chat_id, _within_scope(request)
    shares, size = _shares(request, limit), request.chat.mean_length
    by_word = [
        text_search.keywords(connection, chat_id, within, query.lexemes, mean_size=size, limit=share)
        for query, share in shares
    ]
    by_vector = [
        dict(text_search.nearest(connection, chat_id, within, *query.embedded, limit=share))
        for query, share in shares
        if query.embedded
    ]
    return {
        "keywords": list(dict.fromkeys(chain(*by_word))),
        "vectors": list(dict.fromkeys(chain(*by_vector))),
    }


def search_exact(connection: Connection, request: Request, first: Arms) -> dict[str, Sequence[int]]:
    """Find up to as many messages as another arm that hold a piece of the query verbatim, for each piece.

    They are among those with its words in the index, as `first` has them. Where the index has other words for it, or
    none (`to be or not to be`), the newest messages are read instead; where it may begin a longer word of the index, as
    2.4 begins 2.4.0, these are read, too, and as many found besides.
    """
    pieces = request.question.exact
    if not pieces:
        return {}
    matches = {
        place: [message for message, content in first.pieces.get(place, ()) if piece.is_in(content)]
        for place, piece in enumerate(pieces)
    }
    read = [(place, piece.parts) for place, piece in enumerate(pieces) if not matches[place]]
    read += [(place, [piece.bare]) for place, piece in enumerate(pieces) if piece.begins]
    known = {place: set(messages) for place, messages in matches.items()}
    others: dict[int, list[int]] = {place: [] for place in matches}
    if read:
        rows = text_search.resembling(
            connection,
            request.chat.chat_id,
            _within_scope(request),
            [parts for _, parts in read],
            newest=VERBATIM_SCANNED // len(read),
            limit=VERBATIM_READ,
        )
        for number, message, content in rows:
            place, _ = read[number]
            if message not in known[place] and pieces[place].is_in(content):
                known[place].add(message)
                others[place].append(message)
    best = (messages[: limits_of(request).best] for messages in (*matches.values(), *others.values()))
    return {"verbatim": list(dict.fromkeys(chain.from_iterable(best)))}


def _shares(request: Request, limit: int) -> list[tuple[QueryTerms, int]]:
    """Return each query with its limit of candidates per arm: all others together get as many as the question.

    More would take longer to rank, for each query all candidates.
    """
    question, *others = request.queries
    return [(question, limit), *((other, max(1, limit // len(others))) for other in others)]


def _within_scope(request: Request) -> MessageFilter:
    """Return the request's filter, narrowed to its session key."""
    return replace(request.filter, session_key=request.session_key)
