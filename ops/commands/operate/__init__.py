"""Commands that watch and mend a deployment."""
