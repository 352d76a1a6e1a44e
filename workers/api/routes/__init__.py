"""The endpoints, a module for each resource; all their routers are listed here."""

from workers.api.routes import (
    contexts,
    documents,
    entities,
    events,
    forgetting,
    health,
    listings,
    memories,
    messages,
    sources,
    users,
)

# the one that is asked most comes first
ROUTERS = [
    *(messages.router, events.router, health.router, contexts.router, memories.router, documents.router),
    *(users.router, entities.router, listings.router, forgetting.router, sources.router),
]
