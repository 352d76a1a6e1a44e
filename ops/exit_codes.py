"""The exit codes of commands, as `backscroll --help` explains them."""

from schemas.errors import (
    ApiFailed,
    BackscrollError,
    InvalidInput,
    NotFound,
    Permanent,
    Retryable,
    SchemaOutdated,
)

# it may work later
FAILED = 1
# done, but a check failed
NOT_AS_IT_SHOULD_BE = 5
# `doctor` found errors
ERRORS_FOUND = 6
# any other error: a defect of Backscroll
DEFECT = 70
# 128 + SIGINT, as shells count
INTERRUPTED = 130

# The first match counts, so subclasses come before their bases.
OF_ERROR: dict[type[BackscrollError], int] = {
    SchemaOutdated: 4,
    Retryable: 1,
    InvalidInput: 2,
    NotFound: 3,
    ApiFailed: DEFECT,
    Permanent: 4,
}

MEANINGS = """\
**Exit codes:** 0 done · 1 failed or not confirmed, may work later (Postgres, Redis or a provider does not answer;
it runs already) · 2 wrong usage or input · 3 not found · 4 a setting, the data folder, a port or the database's tables
are not as they must be · 5 done, but a check failed (of a demo or a measurement, an imported file that is cut off or
was not read whole, a dead job, a warning of the doctor) · 6 the doctor found an error · 70 a defect in Backscroll ·
130 ended by Ctrl-C
"""


def of(error: BackscrollError) -> int:
    """Return the exit code of a command that failed with this error."""
    return next((code for kind, code in OF_ERROR.items() if isinstance(error, kind)), OF_ERROR[Permanent])
