# pyright: strict
"""How long the flow's prompt should be: pure."""

from __future__ import annotations

#: tokens of a block of the flow; attention sees whole blocks, counted from the prompt's start
BLOCK = 25
#: new tokens that complete the prompt's last block. Fewer make a first chunk too short to be
#: vocoded well, more make the listener wait.
FEWEST_FIRST, MOST_FIRST = 10, 15


def trim_prompt(tokens: int) -> int:
    """How many tokens to cut off a prompt's start, so that its last block is completed by 10 to 15
    new tokens: that block is the first chunk of every utterance.

    Args:
        tokens: of the whole prompt.

    Returns:
        As few as possible, at most 19; none where the prompt is shorter than 10.
    """
    most = BLOCK - FEWEST_FIRST
    over, rest = tokens - most, tokens % BLOCK
    if over < 0 or BLOCK - MOST_FIRST <= rest <= most:
        return 0
    return over % BLOCK
