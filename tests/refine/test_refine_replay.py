"""n-step transitions: they end where episodes end, and shaping telescopes in them."""

import numpy as np
import pytest

from keygrasp.refine.replay import Episode, Replay, n_step_returns

GAMMA = 0.5


def episode(terminated, steps=3):
    rng = np.random.default_rng(0)
    potential = rng.uniform(-20, 1, steps + 1)
    if terminated:
        potential[-1] = 0
    return potential, Episode(
        scene=2,
        grasps=rng.normal(size=(steps + 1, 5)).astype(np.float32),
        actions=np.arange(steps),
        rewards=np.array([0.0] * (steps - 1) + [1.0]),
        shaping=GAMMA * potential[1:] - potential[:-1],
        terminated=terminated,
    )


def test_n_step_returns_end_where_the_episode_ends():
    assert n_step_returns([1.0, 2.0, 4.0], 0.5, 2).tolist() == [2.0, 4.0, 4.0]
    assert n_step_returns([1.0], 0.5, 9).tolist() == [1.0]


def test_nothing_bootstraps_behind_a_terminal_end_and_a_truncated_one_does():
    _, ended = episode(terminated=True)
    assert ended.transitions(GAMMA, 2).discount.tolist() == [0.25, 0.0, 0.0]
    _, cut = episode(terminated=False)
    found = cut.transitions(GAMMA, 2)
    assert found.discount.tolist() == [0.25, 0.25, 0.5]
    assert np.array_equal(found.after, cut.grasps[[2, 3, 3]])
    assert found.reward.tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("terminated", [True, False])
def test_shaping_telescopes(terminated):
    potential, one = episode(terminated)
    found = one.transitions(GAMMA, 2)
    last = potential[[2, 3, 3]]
    assert found.shaping == pytest.approx(found.discount * last - potential[:-1], abs=1e-5)


def test_the_oldest_transitions_go():
    replay = Replay(capacity=4)
    for steps in (3, 3):
        replay.add(episode(terminated=True, steps=steps)[1].transitions(GAMMA, 1))
    assert len(replay) == 4
    drawn = replay.draw(64, np.random.default_rng(0))
    assert set(drawn.action.tolist()) == {0, 1, 2}
    assert drawn.before.shape == (64, 5)
