"""A keyword search decides between equals by when they were said, as a chat has other numbers wherever it is imported.

Revision: 0119
"""

from collections.abc import Sequence

from alembic import op
from sqlalchemy import text

revision = "0119"
down_revision = "0118"
branch_labels = None
depends_on = None

# Single precision, as the last bits of a sum depend on its order. Of equals at a limit all are found.
_CHANGES = (
    ("ORDER BY sent_at LIMIT 50)", "ORDER BY sent_at FETCH FIRST 50 ROWS WITH TIES)"),
    ("(times + norm)) AS score", "(times + norm))::real AS score"),
    (
        "GROUP BY id ORDER BY score DESC, id DESC LIMIT best",
        "GROUP BY id, sent_at ORDER BY score DESC, sent_at DESC FETCH FIRST (best) ROWS WITH TIES",
    ),
    ("FROM began)))) AS score", "FROM began))))::real AS score"),
    (
        "GROUP BY 1 ORDER BY score DESC, id DESC LIMIT best_sessions",
        "GROUP BY 1, began.times[place] ORDER BY score DESC, began.times[place] DESC\n"
        "        FETCH FIRST (best_sessions) ROWS WITH TIES",
    ),
)


def upgrade() -> None:
    _change(_CHANGES)


def downgrade() -> None:
    _change([(new, old) for old, new in _CHANGES])


def _change(changes: Sequence[tuple[str, str]]) -> None:
    definition = op.get_bind().scalar(text("SELECT pg_get_functiondef(to_regproc('keyword_search'))"))
    for old, new in changes:
        if definition.count(old) != 1:
            raise RuntimeError("keyword_search is not as the migration before this one left it")
        definition = definition.replace(old, new)
    op.get_bind().exec_driver_sql(definition)
