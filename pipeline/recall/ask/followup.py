"""Complete a follow-up question ("and how old is it?") with content words of the latest messages."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from pipeline.recall.ask.parse import Question
from pipeline.text.cues import addressing, cues_of, plain
from pipeline.text.sentences import FIRST_UNSPACED, is_content, stem, words
from schemas.sessions import Message

# A follow-up refers to nothing older: this is the gap that ends a session by default.
FOLLOWUP_WINDOW = timedelta(minutes=30)
# Number of latest messages examined.
MAX_MESSAGES_READ = 8
# Maximum number of words taken from them.
MAX_WORDS_ADDED = 12
# A question with more content words than this needs no context, whatever it refers to.
_MOST_CONTENT_WORDS = 2


def is_followup(question: Question) -> bool:
    """Tell whether a question cannot be understood without the messages before it.

    Its wording refers to something else ("what about the other one"), it continues the talk as a fragment ("and the
    plumber?"), it has no content words and names neither people nor a time, or it has few of them and a pronoun.
    """
    cues, text = cues_of(question.language), plain(question.text)
    if cues.alone.are_in(text):
        return True
    content = [word for word in words(question.content) if is_content(word, question.language)]
    # in scripts without spaces two characters make about one word
    size = sum(0.5 if word[0] >= FIRST_UNSPACED else 1 for word in content)
    if size <= _MOST_CONTENT_WORDS:
        # a question about a named person is complete
        elliptic = not (size and question.speakers) and not cues.begins.match(text)
        if elliptic and cues.openers.match(text):
            return True
        if not question.speakers and cues.refers.are_in(plain(question.content)):
            return True
    return not size and not question.speakers and not question.spans


def context_words(
    question: Question, recent: Sequence[Message], now: datetime, people: Iterable[str] = ()
) -> list[str]:
    """Return content words of the latest messages, those of the newest first; `recent` is newest first.

    `people` are the chat's members.

    The question itself and earlier questions to a bot, but the last, are passed over.
    """
    names = addressing.written_apart(people)
    bots = addressing.names_of({message.speaker for message in recent if message.role == "assistant"})
    bots |= addressing.called_bots(names)
    passed, language = False, question.language
    stems = {stem(word) for word in words(question.content)}
    normalized = addressing.said(question.text, language)
    taken_over: list[str] = []
    for message in recent[:MAX_MESSAGES_READ]:
        if now - message.sent_at > FOLLOWUP_WINDOW:
            break
        if addressing.said(message.content, language, bots | names) == normalized:
            continue
        content = message.content
        if addressing.is_put_to_a_bot(content, language, bots):
            if passed:
                continue
            passed, content = True, addressing.said(content, language, bots)
        for word in words(content):
            if len(taken_over) < MAX_WORDS_ADDED and is_content(word, language) and stem(word) not in stems:
                stems.add(stem(word))
                taken_over.append(word)
    return taken_over
