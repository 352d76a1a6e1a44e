"""Columns, references and options that several tables of the first schema share."""

# A stored generated column needs an immutable expression, so every configuration is named literally.
_LANGUAGES = (
    "simple arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian "
    "indonesian irish italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish "
    "tamil turkish yiddish"
).split()
LANGUAGE = "language text NOT NULL DEFAULT 'english' CHECK (language IN ({}))".format(
    ", ".join(f"'{name}'" for name in _LANGUAGES)
)


def tsv(column: str) -> str:
    cases = " ".join(
        f"WHEN '{name}' THEN to_tsvector('pg_catalog.{name}'::regconfig, {column})" for name in _LANGUAGES
    )
    return f"tsv tsvector GENERATED ALWAYS AS (CASE language {cases} END) STORED"


TENANT = "tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE"
CHAT = "FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE"
_SHARES = ("vacuum_scale_factor", "vacuum_insert_scale_factor", "analyze_scale_factor")
# By default a fifth of a table changes before it is vacuumed, and a tenth before it is analyzed: of a hundred million
# messages that is a day's work at once, and of a queue it is millions of dead rows.
LARGE = ", ".join(f"autovacuum_{share} = 0.02" for share in _SHARES)
QUEUE = ", ".join(f"autovacuum_{share} = 0.01" for share in _SHARES) + (
    ", autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000, "
    "autovacuum_vacuum_insert_threshold = 10000"
)
