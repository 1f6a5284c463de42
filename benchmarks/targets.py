"""What targets of moves cost: shares of a training step by n steps and by Retrace, with the shipped network's sizes.

Each kind is trained for some steps in turn with the other. Rollouts are sequences inside images, credit assignment all
that gives targets (the networks' values along the way included), the rest the update. The operator of
``keygrasp.credit`` alone is timed as well, on targets of the same shape.

    OMP_NUM_THREADS=1 python benchmarks/targets.py --json benchmarks/results/targets.json
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from keygrasp.configuration import load_config
from keygrasp.credit import retrace
from keygrasp.experience.collect import CollectConfig, collect
from keygrasp.files import write_json
from keygrasp.provenance import provenance
from keygrasp.refine.dataset import load_dataset
from keygrasp.refine.train_config import TrainConfig
from keygrasp.refine.training import Trainer

_CONFIG = Path(__file__).parents[1] / "configs" / "refiner.yaml"
_KINDS = ("n_step", "retrace")


def measure(labels: Path, steps: int, rounds: int, device: str, seed: int) -> dict[str, Any]:
    """Milliseconds a training step by cost, medians over rounds."""
    data = load_dataset([labels])
    base = dataclasses.replace(load_config(_CONFIG, TrainConfig), validation=(), warm_up=0, device=device, seed=seed)
    trainers = {kind: Trainer(dataclasses.replace(base, targets=kind), data, None) for kind in _KINDS}
    laps: dict[str, list[dict[str, float]]] = {kind: [] for kind in _KINDS}
    for trainer in trainers.values():
        trainer.train_step()  # buffers, and the first sequences
    for _ in range(rounds):
        for kind, trainer in trainers.items():
            trainer.seconds = dict.fromkeys(trainer.seconds, 0.0)
            for _ in range(steps):
                trainer.train_step()
            spent = trainer.seconds
            rest = spent["update"] + spent["reward"]
            lap = {"rollouts": spent["rollouts"], "credit": spent["credit"], "rest": rest}
            laps[kind].append({name: 1e3 * value / steps for name, value in lap.items()})
    found: dict[str, Any] = {}
    for kind, each in laps.items():
        ms = {name: statistics.median(lap[name] for lap in each) for name in each[0]}
        whole = sum(ms.values())
        found[kind] = {"ms_a_step": ms, "shares": {name: value / whole for name, value in ms.items()}}
    sequences = max(1, base.move_batch // base.n_step)
    operator = operator_ms(sequences, base.n_step, trainers["retrace"].device)
    whole = sum(found["retrace"]["ms_a_step"].values())
    found["operator"] = {"shape": [sequences, base.n_step], "ms": operator, "share_of_step": operator / whole}
    return found


def operator_ms(count: int, steps: int, device: torch.device, repeats: int = 200) -> float:
    """Milliseconds of the Retrace operator on (count, steps) targets."""
    values, later, rewards = (torch.rand(count, steps, device=device) for _ in range(3))
    none = torch.zeros(count, steps, dtype=torch.bool, device=device)
    log_probs = torch.zeros(count, steps, device=device)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        retrace(rewards, values, later, log_probs, log_probs, none, gamma=0.99, time_dim=1, advantages=False)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=Path, help="a folder of labels; a few are collected where none is given")
    parser.add_argument("--steps", type=int, default=4, help="training steps of each kind a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        labels = options.labels or Path(folder)
        if options.labels is None:
            collect(CollectConfig(out=labels, scenes=6, random=8, planned=1, perturbed=1, workers=1))
        found = measure(labels, options.steps, options.rounds, options.device, options.seed)
    table = Table(title="A training step, ms (share)")
    table.add_column("targets")
    for name in ("rollouts", "credit", "rest"):
        table.add_column(name, justify="right")
    for kind in _KINDS:
        ms, shares = found[kind]["ms_a_step"], found[kind]["shares"]
        table.add_row(kind, *(f"{ms[name]:.1f} ({100 * shares[name]:.0f}%)" for name in ms))
    console = Console()
    console.print(table)
    operator = found["operator"]
    console.print(
        f"Retrace's operator alone: {operator['ms']:.3f} ms, {100 * operator['share_of_step']:.2f}% of a step"
    )
    if options.json is not None:
        settings = {"steps": options.steps, "rounds": options.rounds, "threads": torch.get_num_threads()}
        write_json(options.json, {"settings": settings, **found, "provenance": provenance(options.seed)})


if __name__ == "__main__":
    main()
