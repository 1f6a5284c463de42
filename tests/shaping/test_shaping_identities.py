"""Exact identities that shaping must keep: GAE, n-step and Retrace targets, and Q-learning begun at Φ.

The estimators here are this file's own, written straight from their definitions.
"""

import numpy as np
import pytest

from keygrasp.shaping import ShapingTerm, TablePotential, shaped_rewards

STATES, GAMMA, LAMBDA = 6, 0.9, 0.8


class Trajectory:
    """Random steps of N environments with terminations and truncations, and the shaping that the term gives them."""

    def __init__(self, seed, steps=40, count=3):
        rng = np.random.default_rng(seed)
        self.phi = rng.normal(size=STATES)
        self.value = rng.normal(size=STATES)
        term = ShapingTerm(TablePotential(self.phi), GAMMA, count=count)
        self.state, self.next = (np.zeros((steps, count), int) for _ in range(2))
        self.reward = rng.normal(size=(steps, count))
        ends = rng.random((2, steps, count))
        self.terminated, self.truncated = ends[0] < 0.1, ends[1] < 0.1
        self.ratio = rng.uniform(0.2, 2.0, (steps, count))
        state = rng.integers(0, STATES, count)
        term.reset(state[:, None].astype(float), [None] * count)
        stored = []
        for t in range(steps):
            self.state[t], self.next[t] = state, rng.integers(0, STATES, count)
            stored.append(term.step(self.next[t][:, None].astype(float), self.terminated[t], self.truncated[t]))
            done = self.terminated[t] | self.truncated[t]
            state = np.where(done, rng.integers(0, STATES, count), self.next[t])
            term.reset(state[:, None].astype(float), [None] * count, done)
        self.shaping = np.stack([s.shaping for s in stored])
        self.potential = np.stack([s.potential for s in stored])
        self.next_potential = np.stack([s.next_potential for s in stored])

    @property
    def done(self):
        return self.terminated | self.truncated

    def gae(self, reward, value):
        following = np.where(self.terminated, 0.0, value[self.next])  # of the last observation, not of the next episode
        delta = reward + GAMMA * following - value[self.state]
        advantage = np.zeros_like(reward)
        after = np.zeros(reward.shape[1])
        for t in reversed(range(len(reward))):
            after = delta[t] + GAMMA * LAMBDA * np.where(self.done[t], 0.0, after)
            advantage[t] = after
        return advantage

    def n_step(self, reward, value, n):
        target = np.zeros_like(reward)
        for t, i in np.ndindex(reward.shape):
            total, discount = 0.0, 1.0
            for k in range(t, min(t + n, len(reward))):
                total += discount * reward[k, i]
                discount *= GAMMA
                if self.done[k, i]:
                    break
            end = 0.0 if self.terminated[k, i] else value[self.next[k, i]]
            target[t, i] = total + discount * end
        return target

    def retrace(self, reward, value):
        """Of state values: V-trace-like corrections with traces λ·min(1, ρ)."""
        trace = LAMBDA * np.minimum(1.0, self.ratio)
        following = np.where(self.terminated, 0.0, value[self.next])
        delta = reward + GAMMA * following - value[self.state]
        target = np.zeros_like(reward)
        after = np.zeros(reward.shape[1])
        for t in reversed(range(len(reward))):
            after = delta[t] + GAMMA * np.where(self.done[t], 0.0, after)
            target[t] = value[self.state[t]] + after
            after = trace[t] * after
        return target


@pytest.fixture(params=range(5))
def trajectory(request):
    return Trajectory(request.param)


def test_gae_of_the_shaped_reward_with_v_minus_phi_is_gae_of_the_plain_one(trajectory):
    plain = trajectory.gae(trajectory.reward, trajectory.value)
    shaped = trajectory.gae(trajectory.reward + trajectory.shaping, trajectory.value - trajectory.phi)
    assert shaped == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("n", [1, 3, 7])
def test_n_step_targets_move_by_phi_and_never_cross_an_end(trajectory, n):
    plain = trajectory.n_step(trajectory.reward, trajectory.value, n)
    shaped = trajectory.n_step(trajectory.reward + trajectory.shaping, trajectory.value - trajectory.phi, n)
    assert shaped == pytest.approx(plain - trajectory.phi[trajectory.state], abs=1e-12)


def test_retrace_targets_move_by_phi(trajectory):
    plain = trajectory.retrace(trajectory.reward, trajectory.value)
    shaped = trajectory.retrace(trajectory.reward + trajectory.shaping, trajectory.value - trajectory.phi)
    assert shaped == pytest.approx(plain - trajectory.phi[trajectory.state], abs=1e-12)


def test_the_identities_break_with_phi_dropped_at_truncation(trajectory):
    """So they would find a term that treats a cut-off end as a terminal one."""
    cut = trajectory.truncated & ~trajectory.terminated
    wrong = trajectory.shaping - GAMMA * np.where(cut, trajectory.next_potential, 0.0)
    plain = trajectory.gae(trajectory.reward, trajectory.value)
    shaped = trajectory.gae(trajectory.reward + wrong, trajectory.value - trajectory.phi)
    assert np.abs(shaped - plain).max() > 1e-3


def test_rewards_from_stored_potentials_are_those_of_the_term(trajectory):
    again = shaped_rewards(
        trajectory.reward, trajectory.potential, trajectory.next_potential, trajectory.terminated, GAMMA
    )
    assert again == pytest.approx(trajectory.reward + trajectory.shaping, abs=1e-15)


def test_q_learning_with_shaping_is_q_learning_begun_at_phi():
    """Wiewiora, JAIR 2003: same experience, same differences between actions, Q′ = Q − Φ at every step."""
    rng, actions = np.random.default_rng(1), 3
    phi = rng.normal(size=STATES)
    term = ShapingTerm(TablePotential(phi), GAMMA)
    shaped, begun = np.zeros((STATES, actions)), np.repeat(phi[:, None], actions, axis=1)
    state = 0
    term.reset(np.array([[0.0]]), [None])
    for _ in range(2000):
        action, following, reward = rng.integers(actions), rng.integers(STATES), rng.normal()
        terminated, truncated = rng.random(2) < 0.05
        step = term.step(np.array([[float(following)]]), [terminated], [truncated])
        for q, r in ((shaped, reward + step.shaping[0]), (begun, reward)):
            target = r + (0.0 if terminated else GAMMA * q[following].max())
            q[state, action] += 0.3 * (target - q[state, action])
        state = following
        if terminated or truncated:
            state = rng.integers(STATES)
            term.reset(np.array([[float(state)]]), [None])
        assert shaped == pytest.approx(begun - phi[:, None], abs=1e-10)


def test_a_network_whose_output_has_phi_taken_off_learns_as_without_shaping():
    """Q-learning on r + F with outputs f − Φ takes the very gradient steps of Q-learning on r with outputs f.

    So that offset makes every potential harmless, and useless: with function approximation too, all that shaping does
    lies in where values begin.
    """
    rng = np.random.default_rng(2)
    features, phi, actions = rng.normal(size=(STATES, 4)), 20 * rng.normal(size=STATES), 3
    term = ShapingTerm(TablePotential(phi), GAMMA)
    weights = {"plain": np.zeros((4, actions)), "offset": np.zeros((4, actions))}
    for _ in range(500):
        state, action, following, reward = (
            rng.integers(STATES),
            rng.integers(actions),
            rng.integers(STATES),
            rng.normal(),
        )
        terminated = bool(rng.random() < 0.1)
        term.reset(np.array([[float(state)]]), [None])
        shaping = term.step(np.array([[float(following)]]), [terminated], [False]).shaping[0]
        for name, added, offset in (("plain", 0.0, np.zeros(STATES)), ("offset", shaping, phi)):
            q = features @ weights[name] - offset[:, None]
            target = reward + added + (0.0 if terminated else GAMMA * q[following].max())
            weights[name][:, action] += 0.01 * (target - q[state, action]) * features[state]
    assert np.abs(weights["plain"]).max() > 0.1
    assert weights["offset"] == pytest.approx(weights["plain"], abs=1e-10)


def test_raw_progress_as_reward_makes_the_arm_hover_and_the_term_does_not():
    """Staying near the object earns Φ each step for ever; with the term it earns (γ − 1)Φ < 0 each step."""
    phi = np.array([0.2, 0.9])  # far, near
    term = ShapingTerm(TablePotential(phi), GAMMA)
    term.reset(np.array([[1.0]]), [None])
    hover = [term.step(np.array([[1.0]]), [False], [False]).shaping[0] for _ in range(50)]
    raw = sum(GAMMA**t * phi[1] for t in range(50))
    assert raw > 1.0  # more than the task's own reward for finishing
    assert max(hover) < 0
    assert sum(GAMMA**t * f for t, f in enumerate(hover)) <= 0
