"""Words lose their accents beside Cyrillic, too: `Zoë и Иван` is found by `zoe`.

What was stored before is indexed so when it is next indexed: few texts have both.

Revision: 0015
"""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

# As in 0012.
_MARKS = r"\0300\0301\0302\0303\0304\0306\0307\0308\0309\030a\030b\030c\031b\0323\0326\0327\0328"
_STROKED, _PLAIN = r"\0142\0141\00f8\00d8\0111\0110\0127\0126\0131", "lLoOdDhHi"
_MAY_BE_ACCENTED, _CYRILLIC = r"[\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff]", r"[\u0400-\u052f]"
_FUNCTION = """
    CREATE OR REPLACE FUNCTION without_accents(content text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN {body}
"""
_LATIN = rf"normalize(translate(normalize(content, NFD), U&'{_STROKED}{_MARKS}', '{_PLAIN}'), NFC)"
# In Cyrillic marks make other letters: a letter with its marks stays as it is.
_MARK = _MARKS.replace("\\0", r"\u0")
_MIXED = rf"""
    normalize(regexp_replace(translate(normalize(content, NFD), U&'{_STROKED}', '{_PLAIN}'),
        '({_CYRILLIC}[\u0300-\u036f]*)|[{_MARK}]', '\1', 'g'), NFC)
"""


def upgrade() -> None:
    body = f"""CASE WHEN content !~ '{_MAY_BE_ACCENTED}' THEN content
        WHEN content ~ '{_CYRILLIC}' THEN {_MIXED} ELSE {_LATIN} END"""
    op.execute(_FUNCTION.format(body=body))


def downgrade() -> None:
    body = f"CASE WHEN content ~ '{_MAY_BE_ACCENTED}' AND content !~ '{_CYRILLIC}' THEN {_LATIN} ELSE content END"
    op.execute(_FUNCTION.format(body=body))
