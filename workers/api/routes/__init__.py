"""The endpoints, a module for each resource; all their routers are listed here."""

from workers.api.inspector import chat_pages, pages, why, work
from workers.api.routes import contexts, events, keys, listings, memory_routes, messages, people
from workers.mcp import mounted

# the most frequent one comes first
ROUTERS = [
    *(
        messages.router,
        events.router,
        listings.health_router,
        contexts.router,
        contexts.digests_router,
        memory_routes.router,
        memory_routes.documents_router,
    ),
    *(people.router, listings.router, people.forgetting_router, keys.sources_router, keys.router),
    mounted.router,
    *(pages.login_router, chat_pages.router, chat_pages.people_router, why.router, work.router),
]
