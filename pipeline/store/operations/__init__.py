"""SQL for operators: the catalog, the doctor's checks, counts, the inspector."""
