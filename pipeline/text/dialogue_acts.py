"""Recognize dialogue acts by wording: decisions, proposals, promises, questions without an answer.

Patterns are English, with the commonest forms of Portuguese, Spanish, French and German.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One sentence of a conversation."""

    # position of its message among the messages
    message: int
    speaker: str
    text: str
    # its words as written, see `pipeline.text.sentences.words`
    words: tuple[str, ...]
    # the stems of those with meaning, see `pipeline.text.sentences.terms`
    terms: tuple[str, ...]
    # the message that this one answers, by its position, where the platform says so
    answers: int | None = None

    @cached_property
    def plain(self) -> str:
        """Return the text with the typewriter's apostrophe, as the patterns have it."""
        return self.text.replace("\u2019", "'")

    @cached_property
    def asks(self) -> bool:
        """Tell whether it is a question."""
        return _QUESTION.search(self.text) is not None


# A question mark with no word after it; read from the last word on, so that each run of marks is gone through once.
_QUESTION = re.compile(r"(?<!\W)[^\w?\uff1f\u061f]*+[?\uff1f\u061f]\W*+\Z")


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


_DECIDED = _any(
    r"\b(?:we|they)(?:'ve| have| had)?(?: all| both| just)? (?:decided|agreed|settled|voted|picked|chose)\b",
    r"\b(?:we|i|they)(?:'ve| have| had)? (?:decided|opted|ruled out|made up my mind|chosen)\b",
    r"\b(?:decided|agreed|settled|approved|confirmed|sorted)[:,.!] .{12,}",
    r"\b(?:it|that)(?:'s| is) (?:decided|agreed|settled|final)\b",
    r"\bdecision\b.{0,20}(?::|\bis\b)|\bfinal (?:answer|decision|call)\b",
    r"\b(?:deal|sold|done)[,.!:] .{8,}",
    r"\blet'?s (?:all )?(?:go|do|take|meet|use|try|stick|switch|book|buy|drop|move|call|order|have|skip|not)\b",
    r"\blet'?s (?:all )?(?:postpone|cancel|leave|pay|put|rent|start|stop|split|ship|merge|release|revert|roll)\b",
    r"\blet'?s (?:all )?(?:keep (?!\w+ing\b|up\b|each\b)|make (?!it\b|sure\b|some\b|a\b|the\b))\w+",
    r"\bwe(?:'ll| will| are going to|'re going to|'re gonna)? (?:take|drop|cancel|postpone|no longer)\b",
    r"\bwe(?:'ll| will| are going to|'re going to|'re gonna)? (?:(?:go|stay|stick|stop) with|(?:switch|move) to)\b",
    r"\b(?:going|stick(?:ing)?) with\b|\bsettled? on\b",
    r"\bwe keep (?!\w+ing\b|on\b|up\b|in touch\b)\w+|^change (?:for|of) [^.?!]{1,40}:",
    r"\bfrom now on\b|\bas of (?:now|today|\w+day)\b|\bno more \w+|^so (?:from|no|we) \w+",
    r"\b(?:is|are|was|were|it's|(?:has|have) been|gets?|got) (?:now )?(?:cancel+ed|booked|postponed|called off)\b",
    r"\b(?:is|are|was|were|it's|(?:has|have) been|gets?|got) (?:now )?(?:moved to|back (?:on|from)|dropped|approved)\b",
    r"^(?:booked|cancel+ed|moved|postponed|scrapped|reverted|dropped)\b|\bi(?:'ve)? (?:cancel+ed|booked|ordered)\b",
    r"\bis now (?:on |at )?(?:\d|the|mon|tue|wed|thu|fri|sat|sun|off\b|on\b)",
    r"\bchange of plans?\b|\bchang(?:ed?|ing) .{0,40}\binstead\b|\binstead of\b|\binstead(?:[.,!]|$)",
    r"\b\w+ it is[.!]?(?:$| then)|^ok(?:ay)?,? so (?:we|it|the|i'll|no)\b",
    r"\b(?:ficou (?:decidido|combinado)|combinado|vamos (?:com|ficar com|usar)|decidimos)\b",
    r"\b(?:hemos decidido|decidido|quedamos en|on a décidé|c'est décidé)\b",
    r"\b(?:wir (?:haben )?(?:beschlossen|entschieden|nehmen)|abgemacht)\b",
)
_HEDGED = _any(
    r"\b(?:if we|if you|whether|should we|shall we|could we|can we|propose|suggest|maybe|perhaps|might|unless)\b",
    r"\b(?:would have|not sure|i think we should|haven'?t|hasn'?t|didn'?t|don'?t know|never)\b",
    r"\blet'?s (?:see|hope|face|just say|keep in touch|say)\b",
)
_AGREES = re.compile(
    r"^\W*(?:agreed|deal|done|sold|\+1|ok(?:ay)? (?:deal|decided|let'?s do (?:it|that))|let'?s do (?:it|that|this)"
    r"|works for me|no objections?|seconded|combinado|fechado|vale|d'accord|abgemacht|einverstanden)"
    r"\b\W*(?:\w+\W*){0,3}$",
    re.IGNORECASE,
)
_PROPOSES = _any(
    r"\b(?:shall we|should we|let'?s|how about|what about|what if we|why don'?t we|we could|can we|proposal|so we)\b",
    r"\b(?:i(?:'d)? (?:propose|suggest|vote)|i say we|objections)\b",
    r"\b(?:vamos|podemos|on pourrait|wollen wir|sollen wir)\b",
)
_PROMISES = _any(
    r"(?:\b(?:i'll|i will|i'm going to|i'm gonna|i am going to|we'll|we will|i promise to|we need to|we have to)"
    r"|(?:^|[,;:.] )(?:ill|i can|let me))"
    # what follows so often that it says nothing of a task
    r" (?!(?:be|never|miss|always|see|think|admit|say|bet|guess|love|know|not|hear|feel|die|let you|definitely|have)\b)"
    r"(?!(?:survive|keep (?:that|it|this|you|\w+ing)|cherish|tell you|understand|imagine|relate|only|no|remember)\b)"
    r"(?!(?:get (?:it|that)|wait|picture|do (?:my|our) best|express|make (?:it|this|some|my)|keep on|rock)\b)\w+",
    r"\b(?:eu (?:vou|ligo|levo|trago|compro|pago)|voy a|je vais|ich werde|ich mache) \w+",
    r"\b(?:todo|to-do|fixme|action item)\b",
    r"\bremind (?:me|us|everyone|the group) (?!(?:of|how|why|what|that|we)\b)\w+",
    r"\b(?:can|could|would|will) (?:you|someone|somebody|anyone|one of you)(?: please)?"
    r" (?!(?:be|believe|imagine|tell me|see|relate|share|hear|feel|give me (?:any|some|an?))\b)\w+",
    r"\bplease (?:\w+ ){0,2}(?:send|bring|check|write|call|book|buy|pay|add|put|take|fix|make|tell|order|clean|look)\b",
    r"\bplease (?:\w+ ){0,2}(?:update|move|open|close|share|confirm|ask|pick)\b",
    r"(?:^|\s)@\w+ (?:please|can|could|put|add|remind|take|check)\b",
)
_UNSURE = _any(
    r"\b(?:no idea|not sure|dunno|don'?t know|i'?ll (?:ask|check|find out|look)|will ask|let me (?:ask|check))\b",
    r"\bhave to ask\b",
    r"\b(?:who knows|good question|tbd|remains? to be seen|no clue)\b",
    r"\b(?:não sei|no sé|je (?:ne )?sais pas|keine ahnung|weiß nicht)\b",
)
_WONDERS = _any(
    r"\bstill (?:need|have) to (?:decide|figure|find out|choose)\b|\b(?:need|have) to (?:figure out|decide)\b",
    r"\bnot sure (?:whether|if|what|when|who|how|where)\b",
    r"\b(?:open question|undecided|tbd|still (?:open|unclear))\b",
)
# Questions that keep a talk going rather than want to know something.
_SMALL_TALK = _any(
    r"\b(?:how (?:are|have) (?:you|things)|how'?s it going|what'?s (?:up|new)|(?:how|what) about you|how was your)\b",
    r"\b(?:you know|isn'?t it|don'?t you|right|huh|really)\?",
    r"\b(?:are you (?:serious|ok|okay|kidding)|anything (?:new|exciting|else))\b",
)
_ANSWER_WINDOW = 6  # messages after a question in which its answer is looked for
_FEWEST_TERMS = 2


def decides(sentence: Sentence) -> bool:
    """Tell whether the sentence states a decision: no question, not hedged, and about something."""
    return (
        not sentence.asks
        and bool(sentence.terms)
        and _DECIDED.search(sentence.plain) is not None
        and _HEDGED.search(sentence.plain) is None
    )


def agrees(sentence: Sentence) -> bool:
    """Tell whether the sentence only says yes to what was proposed before it."""
    return not sentence.asks and _AGREES.search(sentence.plain) is not None


def proposes(sentence: Sentence) -> bool:
    """Tell whether the sentence proposes something."""
    return len(sentence.terms) >= _FEWEST_TERMS and _PROPOSES.search(sentence.plain) is not None


def promises(sentence: Sentence) -> bool:
    """Tell whether somebody takes on a task in the sentence, or is asked to."""
    return bool(sentence.terms) and _PROMISES.search(sentence.plain) is not None


def stays_open(index: int, sentences: Sequence[Sentence]) -> bool:
    """Tell whether the sentence at `index` asks something that nobody answers later.

    An answer is what another speaker says within the next messages: in reply to it as the platform records it,
    with a word of the question, or right after it; unless that is itself a question or says "no idea".
    """
    asked = sentences[index]
    if not asked.asks:
        return len(asked.terms) >= _FEWEST_TERMS and _WONDERS.search(asked.plain) is not None
    if len(asked.terms) < _FEWEST_TERMS or _SMALL_TALK.search(asked.plain):
        return False
    after = list(
        takewhile(lambda s: s.message <= asked.message + _ANSWER_WINDOW, islice(sentences, index + 1, None))
    )
    if any(s.message == asked.message and not s.asks for s in after):
        return False  # who goes on talking after a question rarely waits for the answer
    replies = [s for s in after if s.speaker != asked.speaker]
    return not any(_answers(reply, asked, replies[0].message) for reply in replies)


def _answers(reply: Sentence, asked: Sentence, first: int) -> bool:
    """Tell whether a reply answers; `first` is the first message by another speaker after the question."""
    related = reply.answers == asked.message or not set(reply.terms).isdisjoint(asked.terms)
    if reply.asks or _UNSURE.search(reply.plain):
        return False
    return related or reply.message == first
