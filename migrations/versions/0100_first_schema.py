"""All tables with their indexes, functions, policies and grants; the vector tables where pgvector is installed.

Revision: 0100, the first. Versions under development had 0001 to 0018; their databases are not upgraded.
"""

from migrations import first_schema

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    first_schema.create()


def downgrade() -> None:
    first_schema.drop()
