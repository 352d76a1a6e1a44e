"""The endpoints, a module for each resource; all their routers are listed here."""

from workers.api.inspector import chats, login, people, why, work
from workers.api.routes import (
    contexts,
    documents,
    event_sources,
    events,
    forgetting,
    health,
    keys,
    listings,
    mcp,
    memories,
    messages,
    users,
)

# the most frequent one comes first
ROUTERS = [
    *(messages.router, events.router, health.router, contexts.router, memories.router, documents.router),
    *(users.router, listings.router, forgetting.router, event_sources.router, keys.router),
    mcp.router,
    *(login.router, chats.router, people.router, why.router, work.router),
]
