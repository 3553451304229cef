"""The five degrees of completeness that the rules tell apart."""
# pyright: strict

from __future__ import annotations

#: nothing is missing, and a mark or a particle says so
FINISHED = 1.0
#: nothing is missing: an ordinary utterance, as a recogniser without punctuation writes it
LIKELY = 0.9
#: may well be all, and may well go on: 三百二十
DOUBTFUL = 0.5
#: rather goes on
UNLIKELY = 0.25
#: cannot end here: 然后
GOING_ON = 0.0
