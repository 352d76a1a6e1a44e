"""The endpoints, a module for each resource; all their routers are listed here."""

from workers.api.routes import (
    contexts,
    documents,
    entities,
    event_sources,
    events,
    forgetting,
    health,
    listings,
    memories,
    messages,
    users,
)

# the one that is asked most comes first
ROUTERS = [
    *(messages.router, events.router, health.router, contexts.router, memories.router, documents.router),
    *(users.router, entities.router, listings.router, forgetting.router, event_sources.router),
]
