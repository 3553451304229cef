"""Drawing of speech tokens: the same distribution as the rule written down one token at a time."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tts_engine.cosyvoice.sampling import BROKEN, Sampling, draw, uniforms

SPEECH, VOCABULARY = 60, 63
RULE = Sampling()
#: the largest number that `uniforms` gives
TOP = 1 - 2**-23


def reference(
    logits: NDArray[np.float64], recent: list[int], *, may_stop: bool, rule: Sampling = RULE
) -> NDArray[np.float64]:
    """Probability of each token, one case after another."""
    scores = logits.copy()
    if not may_stop:
        scores[SPEECH:] = -np.inf
    probabilities = softmax(scores)
    nucleus: list[int] = []
    reached = 0.0
    for token in np.argsort(-probabilities, kind="stable"):
        if reached >= rule.top_p or len(nucleus) >= rule.top_k:
            break
        nucleus.append(int(token))
        reached += probabilities[token]
    answer = np.zeros(len(scores))
    for token in nucleus:
        chance = probabilities[token] / reached
        if recent[-rule.window :].count(token) >= rule.window * rule.repeat_ratio:
            others = scores.copy()
            others[token] = -np.inf
            answer += chance * softmax(others)
        else:
            answer[token] += chance
    return answer


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def measured(
    logits: NDArray[np.float64], recent: list[int], *, may_stop: bool, rule: Sampling = RULE
) -> NDArray[np.float64]:
    """Share of each token over an even grid of the two random numbers."""
    side = 256
    ticks = (torch.arange(side, dtype=torch.float32) + 0.5) / side
    uniform = torch.cartesian_prod(ticks, ticks)
    rows = len(uniform)
    drawn = draw(
        torch.tensor(logits, dtype=torch.float32).repeat(rows, 1),
        recent=window(recent, rule).repeat(rows, 1),
        others=torch.full((rows, VOCABULARY - SPEECH), may_stop),
        uniform=uniform,
        speech_tokens=SPEECH,
        rule=rule,
    )
    return np.bincount(drawn.numpy(), minlength=len(logits)) / rows


def window(recent: list[int], rule: Sampling = RULE) -> torch.Tensor:
    latest = recent[-rule.window :]
    return torch.tensor([[*latest, *[-1] * (rule.window - len(latest))]])


def some_logits(seed: int, spread: float) -> NDArray[np.float64]:
    # In float32 once, so that both sides rank the same numbers.
    return (
        np.random.default_rng(seed).normal(0, spread, VOCABULARY).astype(np.float32).astype(float)
    )


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    spread=st.sampled_from([0.3, 1.5, 4.0]),
    repeated=st.integers(0, 12),
    may_stop=st.booleans(),
    rule=st.sampled_from([RULE, Sampling(top_k=4, window=6, repeat_ratio=0.4)]),
)
def test_same_distribution_as_the_rule(
    seed: int, spread: float, repeated: int, may_stop: bool, rule: Sampling
) -> None:
    logits = some_logits(seed, spread)
    likeliest = [int(token) for token in np.argsort(-logits)[:3]]
    recent = [likeliest[index % 3] for index in range(repeated)]
    wanted = reference(logits, recent, may_stop=may_stop, rule=rule)
    found = measured(logits, recent, may_stop=may_stop, rule=rule)
    # The grid's own error is a 256th per edge between tokens; the sum of all differences is small.
    assert np.abs(wanted - found).max() < 0.012
    assert np.abs(wanted - found).sum() < 0.06


def test_a_token_of_the_window_is_not_drawn_from_the_nucleus() -> None:
    logits = np.full(VOCABULARY, -4.0)
    logits[7] = 6.0
    assert measured(logits, [], may_stop=True)[7] == 1
    assert measured(logits, [7], may_stop=True)[7] == 0
    assert measured(logits, [7] + [1] * 9, may_stop=True)[7] == 0
    assert measured(logits, [7] + [1] * 10, may_stop=True)[7] == 1


def test_no_end_before_it_is_allowed() -> None:
    logits = np.full(VOCABULARY, -4.0)
    logits[SPEECH] = 50.0
    logits[SPEECH + 2] = 50.0
    assert measured(logits, [], may_stop=False)[SPEECH:].sum() == 0
    assert measured(logits, [], may_stop=True)[SPEECH:].sum() == 1


@pytest.mark.parametrize("uniform", [0.0, 0.5, TOP])
@pytest.mark.parametrize("recent", [[], [0]])
def test_a_token_without_a_chance_is_never_drawn(uniform: float, recent: list[int]) -> None:
    logits = torch.full((1, VOCABULARY), -300.0)
    logits[0, :40] = torch.linspace(0, 3, 40)
    drawn = draw(
        logits,
        recent=window(recent),
        others=torch.ones(1, 3, dtype=torch.bool),
        uniform=torch.full((1, 2), uniform),
        speech_tokens=SPEECH,
        rule=Sampling(top_p=1.0, top_k=VOCABULARY),
    )
    assert 0 <= drawn.item() < 40


def test_fewer_tokens_than_the_nucleus_may_hold() -> None:
    logits = torch.linspace(1, 0, 5)[None]
    drawn = draw(
        logits,
        recent=window([]),
        others=torch.ones(1, 0, dtype=torch.bool),
        uniform=torch.full((1, 2), TOP),
        speech_tokens=5,
        rule=Sampling(top_p=1.0),
    )
    assert drawn.item() == 4


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_broken_row_is_told_and_the_others_are_drawn(number: float) -> None:
    logits = torch.zeros(3, VOCABULARY)
    logits[:, 5] = 50.0
    logits[1, 9] = number
    drawn = draw(
        logits,
        recent=window([]).repeat(3, 1),
        others=torch.tensor([True, True, False])[:, None].repeat(1, 3),
        uniform=torch.full((3, 2), 0.4),
        speech_tokens=SPEECH,
        rule=RULE,
    )
    assert drawn.tolist() == [5, BROKEN, 5]


def test_uniforms_repeat_with_their_seed_and_stay_below_one() -> None:
    one, same, other = Random(3), Random(3), Random(4)
    numbers = [uniforms(one) for _ in range(100)]
    assert numbers == [uniforms(same) for _ in range(100)]
    assert numbers != [uniforms(other) for _ in range(100)]
    assert all(0 <= number <= TOP for pair in numbers for number in pair)
