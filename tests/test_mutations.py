"""Small faults in a source file, of which the share that stories notice is measured."""

from tests.mutants import CHECKOUT, STORIES
from tests.mutations import mutants_of

SOURCE = '''
"""Is it 5 > 4?"""
LIMIT: int | None = 7

def first(given: list[int] = [], *, most: int = 2) -> int:
    log.info("looking at %d", 1)
    if not given or len(given) > most:
        raise ValueError(f"{most + 1}")
    for each in sorted(given, reverse=True):
        if each < 0:
            return each
    forget(given)
    return given[0]  # приветик
'''
FAULTS = {
    "3: 7 → 8",
    "5: 2 → 3",
    "7: not given → (given)",
    "7: not given or len(given) > most → (not given and len(given) > most)",
    "7: not given or len(given) > most → (not (not given or len(given) > most))",
    "7: len(given) > most → (len(given) >= most)",
    '8: raise ValueError(f"{most + 1}") → pass',
    "9: sorted(given, reverse=True) → list(given)",
    "9: True → False",
    "10: each < 0 → (each <= 0)",
    "10: 0 → 1",
    "11: return each → pass",
    "12: forget(given) → pass",
    "13: 0 → 1",
}


def test_every_fault_is_made_once_and_is_a_program() -> None:
    mutants = mutants_of("it.py", SOURCE.encode())
    assert sorted(map(str, mutants)) == sorted(f"it.py:{fault}" for fault in FAULTS)
    for mutant in mutants:
        changed = mutant.applied(SOURCE.encode()).decode()
        compile(changed, "it.py", "exec")
        assert changed != SOURCE


def test_all_modules_and_stories_that_are_named_exist() -> None:
    named = {path for prefix, stories in STORIES.items() for path in (prefix, *stories)}
    assert [path for path in named if not (CHECKOUT / path).exists()] == []
