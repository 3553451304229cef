"""How English utterances end, and how they break off."""
# pyright: strict

from __future__ import annotations

import re

from pipeline.turns.expressions import by_expression, longest_ending
from pipeline.turns.levels import DOUBTFUL, FINISHED, GOING_ON, LIKELY, UNLIKELY

# Last words of a clause, without apostrophes. The longest row of words that fits decides; what is
# not listed ends an utterance. LIKELY holds the exceptions from the shorter ones below it.
_ENDINGS = {
    FINISHED: "isnt it|arent you|arent they|dont you|doesnt it|is that right|thank you|thanks",
    LIKELY: """
        i think so|i hope so|i guess so|or so|so so|even so|do so|say so|why so|not so|if so
        |and so on|look like|looks like|sound like|sounds like|feel like|feels like|he like
        |she like|they like|you like|we like|it like|id like|where to|going to|want me to
        |used to be|listen to|talk to|listening to|talking to|speak to|like me to|like you to
        |i have to|come in|log in|sign in|check in|fill in|let me in|let them in|turn in|am in
        |are in|im in|come on|go on|hold on|hang on|move on|carry on|log on|going on|later on
        |from now on|keep on|come with|stop by|stand by|dream of|made of|think of|heard of
        |come from|are from|what that is|what this is|where he is|who he is|where she is
        |who she is|who they are|where they are|what they are|here you are|there you are
        |where you are|what they were|it is|i will|he will|she will|i could|i would|i should|i do
        |you do|we do|they do|i did|you did|he did|she did|you have|they have|why not
        |of course not|i hope not|i guess not|if not|or not|do not|did not|say what|guess what
        |know what|know who|know where|know how|know when|call her|tell her|with her|ask her
        |for her|to her|see her|it was|as well|the where and when|say when|since when|not really
        |really really|is he|is she|are they|are we|was he|was she|were they|am i|so do i|so did i
        |so can i|so have i|nor do i|neither do i|whats new|anything new|something new|do next
        |each other|lights on|light on|tv on|radio on|fan on|heating on|probably not|maybe not
        |definitely not|absolutely not|certainly not
        """,
    DOUBTFUL: """
        so|not|her|his|what|who|where|when|how|really|also|even|only|you know|i know|i guess|maybe
        |probably|actually|basically|though|then|tell me|show me|remind me|give me|have|has|had|do
        |does|did|could|will|should|would|was|were|be|been|being|some|any|more|how many|i like
        |do you like|in|on|over|get|new|other|next|you know that|i dont|i cant|i didnt|i havent
        |i wont|we dont|let me know
        """,
    UNLIKELY: """
        say that|think that|said that|told me that|believe that|hope that|fact that|means that
        |says that|sure that|heard that|which|as|than|very|quite|just|every|each|these|those
        |okay so|well|hey|i|we|they|he|she|are|is|about|by|at|like|i need|i want|what if|i wonder
        |i wonder if|lets|let me|gonna|gotta|wanna|trying|please can|i believe|how do|how does
        |how can|why do|why does|want to know|want to know how|want to know why|want to know what
        |want to know where|want to know who|want to know when|like to know|like to know how
        |like to know why|like to know what|like to know where|like to know who|like to know when
        |i usually|i always|i never|i still|i often|i already|i almost|we usually|we always
        |they always|he always|she always|i really want|i just want|i only want|i just need
        |we want|we need|they need|he said|she said|they said|i said|not only|gmail|would you like
        """,
    GOING_ON: """
        and|or|but|because|cause|cuz|if|while|although|unless|until|since|whereas|and then|so then
        |and so|so that|such as|for example|for instance|um|uh|er|erm|hmm|uhm|umm|uhh|ah|the|a|an
        |my|your|its|our|their|to|of|for|with|from|into|onto|between|without|during|per|via
        |through|against|toward|towards|beside|among|must|may|might|shall|i mean|i think|i feel
        |it is like|its like|was like|im|thats|theres|heres|whats|whos|wheres|hows|whens|whys|hes
        |shes|youre|were going|theyre|ill|youll|hell be|theyll|ive|youve|theyve|id|youd|can you
        |could you|would you|will you|can you please|could you please|would you please|can we
        |can i|could i|may i|what about|how about|tell me about|more about|and like|you know like
        |is called|named|the first|the last|the best|the most|the next|the same|please add
        |my name is|i was wondering|i was thinking|let me think|let me see|lets see|depends on
        """,
}

#: what it means when it is all that was said since the last mark
_ALONE = {
    FINISHED: "hello|hi|yes|no|thanks|thank you|stop|okay|ok|please do|why|why not|what",
    LIKELY: """
        hey there|play|pause|what is it|who is it|where is it|i do|i did|i am|i will|i can|really
        |more|her|him|me|maybe|probably|all of them|this|that|which one|who|where|when|how
        |how are you|i see|not yet|not really|next|like that|just that|both|yes please|who am i
        """,
    DOUBTFUL: """
        tomorrow|today|tonight|now|yesterday|right now|hmm|then|i know|i like|this weekend|open
        |i guess|please|it was|last week|next week|this week|this morning|last night|set a timer
        |set an alarm|set a reminder|translate|another|one more|a few|what is the difference|some
        """,
    UNLIKELY: """
        hey|so|well|okay so|oh|turn on|turn off|turn up|turn down|switch on|switch off|set|call
        |search|find|look up|add|remind me|tell me|show me|give me|send|excuse me|go to|you know
        |what time|do you know|do you have|is there any|do|does|did|are there any|actually
        |basically|first|also|turn the|how much is|how many|in|on|i want|i need|id like|i have
        |i had|i love|i saw|i went|i got|i bought|i found|i heard|my name|my friend|there was
        |do you know how|do you know where|do you know what|do you know who|do you know why
        |do you know when|could you tell me|can you tell me|i was
        """,
    GOING_ON: """
        i|we|you|he|she|they|it|im|its|can|could|would|let me|lets|and i|but i|what is|what are
        |can you
        """,
}

#: "turn the light on", "plug it in": the particle of a verb that has its object
_PARTICLE = re.compile(
    r"\b(?:turn|switch|put|leave|keep|have|plug|hand|fill|let|bring|get|try) (?:\w+ )+(?:on|in)$"
)
#: "where are you from", "what is it for": a question that ends in its preposition
_STRANDED = re.compile(
    r"^(?:.* )?(?:what|whats|who|whos|which|where|wheres|how)\b.*"
    r" (?:(?:it|this|that|you|he|she|they|we|i) (?:for|from|like|about|with|at|in|on|to|of)"
    r"|(?:\w+ing|made|come|belong|work|live|talk|listen|look|wait|pay)"
    r" (?:to|at|for|about|with|of|from|on|in))$"
)
_LIKE = re.compile(r"\bwhats?\b.* like$")
_STRANDED_NOT = re.compile(r"\b(?:time|weather|temperature|distance|capital|president|get|price)\b")
#: a condition without what follows from it; "when is" asks
_SUBORDINATE = re.compile(
    r"(?:if|although|even though|unless|as soon as|whenever"
    r"|when (?!(?:is|are|was|were|do|does|did|will|can|should|would)\b))\b"
    r"(?!.*\b(?:then|will|would|should|can|could|what|how|who|where|why|please|call|tell|remind"
    r"|turn|ill|well|let|lets|send|play|stop|id|youll|give)\b)"
)
#: "how do you", "why did", "is there": a question without its verb or its rest
_OPEN_QUESTION = re.compile(
    r"(?:(?:what|how|why|when|where|who|which)\b.* )?"
    r"(?:do|does|did|can|could|will|would|should|dont) (?:i|we|you|he|she|they|it)"
    r"|(?:is|are|was|were) (?:i|we|you|he|she|they|it|there)"
    r"|(?:what|how|why|when|where|who|which)\b(?:.*(?<!\bit)(?<!\bthey)(?<!\byou)(?<!he)(?<!\bwe)"
    r"(?<!\bi)(?<!\bthat)(?<!\bthis))? (?:does|did|is|are|was|were|will|would|could|can|should)"
)
_FILLERS = re.compile(
    r"(?:(?:so|well|okay|ok|um|uh|er|oh|and|but|hey|yeah|yes|please|right|like) )+"
)


BY_ENDING = by_expression(_ENDINGS)
BY_CLAUSE = by_expression(_ALONE)
_LONGEST = max(len(words.split()) for words in BY_ENDING)


def english(clause: str) -> float:
    """How finished a clause is that ends in English.

    Args:
        clause: what was said since the last mark, in lower case, words apart by single spaces,
            without marks and apostrophes; not empty.
    """
    if clause in BY_CLAUSE:
        return BY_CLAUSE[clause]
    fillers = _FILLERS.match(clause)
    core = clause[fillers.end() :] if fillers else clause
    ending = longest_ending(clause.split(), BY_ENDING, joint=" ", longest=_LONGEST)
    if core in BY_CLAUSE:
        return min(ending, BY_CLAUSE[core])
    if ending < LIKELY and (_PARTICLE.search(clause) or _is_stranded(clause)):
        ending = LIKELY
    broken = _SUBORDINATE.match(core) or _OPEN_QUESTION.fullmatch(clause)
    return min(ending, UNLIKELY if broken else FINISHED)


def _is_stranded(clause: str) -> bool:
    if _LIKE.search(clause):
        return True
    return bool(_STRANDED.search(clause)) and not _STRANDED_NOT.search(clause)
