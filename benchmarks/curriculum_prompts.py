"""Prompts for reinforcement learning from verifiable rewards, scheduled by the same three calls as grasp trials.

A simulated policy answers prompts in 40 topics. It learns from a prompt when some of its answers are right and some
wrong (a group of answers that end alike has no advantage and no gradient), and what it learns helps the whole topic.

    python benchmarks/curriculum_prompts.py --json benchmarks/results/curriculum-prompts.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.special import expit

from keygrasp.curriculum import AllocationConfig, make_scheduler
from keygrasp.files import write_json
from keygrasp.provenance import provenance

_TOPICS, _PROMPTS, _STEPS, _GROUP, _BUDGET = 40, 4000, 60, 8, 512


class Policy:
    """Answers prompts; each mixed group of answers moves its topic, and a little of everything, by some logits."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.topic = self.rng.integers(_TOPICS, size=_PROMPTS)
        centres = self.rng.normal(size=(_TOPICS, 32))
        self.embeddings = centres[self.topic] + 0.5 * self.rng.normal(size=(_PROMPTS, 32))
        self.logits = 2.5 * self.rng.normal(size=_TOPICS)[self.topic] + self.rng.normal(size=_PROMPTS) - 2

    def answer(self, ids: np.ndarray, trials: np.ndarray) -> np.ndarray:
        """Right answers of so many to each prompt."""
        return self.rng.binomial(trials, expit(self.logits[ids]))

    def learn(self, ids: np.ndarray, right: np.ndarray, trials: np.ndarray) -> None:
        """Take one update from groups of answers."""
        rate = right / trials
        gain = np.bincount(self.topic[ids], rate * (1 - rate), minlength=_TOPICS)
        self.logits += 0.05 * gain[self.topic] + 0.001 * gain.sum()


def train(name: str, seed: int) -> dict[str, list[float]]:
    policy = Policy(seed)
    scheduler = make_scheduler(name, policy.embeddings, seed=seed)
    explore = scheduler.allocation.explore
    scheduler.allocation = AllocationConfig(scheduler.allocation.rule, least=_GROUP, most=_GROUP, explore=explore)
    curves: dict[str, list[float]] = {"pass_rate": [], "mixed": []}
    for _ in range(_STEPS):
        batch = scheduler.allocate(_BUDGET)
        right = policy.answer(batch.ids, batch.trials)
        scheduler.update(batch.ids, right, batch.trials)
        policy.learn(batch.ids, right, batch.trials)
        curves["pass_rate"].append(float(expit(policy.logits).mean()))
        curves["mixed"].append(float(np.mean((right > 0) & (right < batch.trials))))
    return curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = {}
    for name in ("uniform", "history", "knn", "replay", "learnability", "graph"):
        runs = [train(name, seed) for seed in range(arguments.seeds)]
        found[name] = {key: np.mean([run[key] for run in runs], axis=0).round(4).tolist() for key in runs[0]}
    goal = found["uniform"]["pass_rate"][-1]
    for name, curves in found.items():
        steps = next((i + 1 for i, rate in enumerate(curves["pass_rate"]) if rate >= goal), None)
        curves["steps_to_uniform_end"] = steps
        print(
            f"{name:14} mixed groups {np.mean(curves['mixed']):.2f}  pass rate at the end {curves['pass_rate'][-1]:.3f}"
            f"  steps to uniform's end {steps if steps else 'never'} of {_STEPS}"
        )
    if arguments.json is not None:
        settings = {"topics": _TOPICS, "prompts": _PROMPTS, "steps": _STEPS, "group": _GROUP, "budget": _BUDGET}
        write_json(arguments.json, {"config": settings, "schedulers": found, "provenance": provenance(0)})


if __name__ == "__main__":
    main()
