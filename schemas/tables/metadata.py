"""All tables together: what migrations and tests compare a database with."""

from schemas.tables import (  # noqa: F401 - a table is known once its module was imported
    conversations,
    forgetting,
    jobs,
    memories,
    querylog,
    users,
    vectors,
)
from schemas.tables.columns import metadata

__all__ = ["metadata"]
