"""The tables, by group as in `pipeline/store/`; the migrations make them, a test holds the two together."""
