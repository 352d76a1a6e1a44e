"""Apply the events of platforms in order."""
