"""Words lose their accents beside Cyrillic, too, and an accent that stands alone is no word.

Until now it made a text that could neither be stored nor asked. What was stored before is indexed so when it is next
indexed: few texts have both Cyrillic and accents.

Revision: 0015
"""

from importlib import import_module

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_BEFORE = import_module("migrations.versions.0012_accents").FUNCTIONS
# As in 0012.
_MARKS = r"\0300\0301\0302\0303\0304\0306\0307\0308\0309\030a\030b\030c\031b\0323\0326\0327\0328"
_STROKED, _PLAIN = r"\0142\0141\00f8\00d8\0111\0110\0127\0126\0131", "lLoOdDhHi"
_MAY_BE_ACCENTED, _CYRILLIC = r"[\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff]", r"[\u0400-\u052f]"
_MARK = _MARKS.replace("\\0", r"\u0")
# In Cyrillic marks make other letters: a letter with its marks stays as it is.
_WITHOUT_ACCENTS = rf"""
    CREATE OR REPLACE FUNCTION without_accents(content text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE WHEN content !~ '{_MAY_BE_ACCENTED}' THEN content
        WHEN content ~ '{_CYRILLIC}' THEN
            normalize(regexp_replace(translate(normalize(content, NFD), U&'{_STROKED}', '{_PLAIN}'),
                '({_CYRILLIC}[\u0300-\u036f]*)|[{_MARK}]', '\1', 'g'), NFC)
        ELSE normalize(translate(normalize(content, NFD), U&'{_STROKED}{_MARKS}', '{_PLAIN}'), NFC) END
"""
_STEMS = "own := CAST(public.without_accents(CAST(own AS text)) AS tsvector);"
_ALONE = r"""
                    IF CAST(own AS text) ~ '''[\u0300-\u036f]' THEN
                        own := ts_delete(own, ARRAY(SELECT lexeme FROM unnest(own)
                            WHERE public.without_accents(lexeme) = ''));
                    END IF;
"""


def upgrade() -> None:
    op.execute(_WITHOUT_ACCENTS)
    op.execute(_BEFORE["words_of(text, text)"].replace(_STEMS, f"{_ALONE.lstrip()}{' ' * 20}{_STEMS}"))


def downgrade() -> None:
    for statement in _BEFORE.values():
        op.execute(statement)
