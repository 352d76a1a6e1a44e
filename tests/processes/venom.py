"""The words of which a poisoned worker dies, apart from what makes it die of them."""

# Of the first the process dies that places, of the second the one that embeds, of the third the one that
# summarizes, of a payload that holds the last the one that accepts.
PLACED_BY, EMBEDDED, SUMMARIZED, ACCEPTED = "Belladonna", "aconite", "hemlock", "ricin"
