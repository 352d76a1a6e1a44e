"""Record what this version stores."""

from tests.store.released import record

record()
