"""SQL of vectors and the spaces that they belong to."""
