"""Stop words of the languages that chats mostly use, in text files beside this one."""

from importlib.resources import files


def _words(name: str) -> frozenset[str]:
    lines = (files(__name__) / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


STOPWORDS = _words("english") | _words("others")
DETERMINERS = _words("determiners")
"""Words that are before a noun more often than before anything else."""
