"""What the outcome model is worth: its predictions, its say in the refiner's ranking, and its labels in training.

python benchmarks/outcomes.py --json benchmarks/results/outcomes.json

With the labels of configs/outcomes.yaml; all on validation objects, on which none was fitted. Executions are nominal,
and rankings are compared on the same scenes and images. ``--parts`` chooses what is measured; the file keeps the rest.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch

from keygrasp.configuration import load_config
from keygrasp.experience.contact_fit import agreement
from keygrasp.files import read_json, write_json
from keygrasp.objects import split
from keygrasp.protocol import SceneError, SceneSpec, build_scene
from keygrasp.protocol.statistics import paired_difference
from keygrasp.provenance import provenance
from keygrasp.refine.dataset import load_dataset
from keygrasp.refine.network import default_weights
from keygrasp.refine.outcome_fit import OutcomeFitConfig, fit_outcomes
from keygrasp.refine.planners import build
from keygrasp.refine.state import featurise
from keygrasp.refine.train_config import TrainConfig
from keygrasp.refine.training import train
from keygrasp.refine.values import Weights

#: Settings of the refiner that are compared; the first is the shipped one.
RANKINGS = {
    "network alone": {},
    "outcome_weight 1": {"outcome_weight": 1.0},
    "outcome_weight 1, push_cost 1": {"outcome_weight": 1.0, "push_cost": 1.0},
    "push_cost 3": {"push_cost": 3.0},
    "push_cost 3, 24 finalists": {"push_cost": 3.0, "finalists": 24},
}


_SETTINGS = load_config(Path(__file__).parents[1] / "configs" / "outcomes.yaml", OutcomeFitConfig)


def predictions(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fit on top of the shipped trunk and from nothing; beside them what the shipped network says of success."""
    found: dict[str, Any] = {}
    for name, start in (("on the shipped trunk", default_weights()), ("from nothing", None)):
        out = arguments.runs / name.replace(" ", "-")
        report = fit_outcomes(fit_config(arguments, start, out), functools.partial(show, name))
        found[name] = {key: report[key] for key in ("config", "labels", "validation_labels", "fit", "validation")}
    data = load_dataset(arguments.validation)
    features = featurise(data.scenes, data.scene, data.grasps, data.gripper)
    with torch.no_grad():
        said = torch.sigmoid(Weights.load(default_weights()).network.execute_logit(features)).numpy()
    return {**found, "the shipped refiner's own success": agreement(said, data.success.numpy())}


def fit_config(arguments: argparse.Namespace, start: Path | None, out: Path) -> OutcomeFitConfig:
    steps, rate = (2 * arguments.steps, 3e-3) if start is not None else (arguments.steps, 1e-3)
    return OutcomeFitConfig(
        labels=tuple(arguments.labels), validation=tuple(arguments.validation), out=out, start=start, steps=steps,
        learning_rate=rate, device="cpu",
    )  # fmt: skip


def rankings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Success, push and force of each ranking's grasps in the same scenes."""
    model = arguments.runs / "on-the-shipped-trunk/outcomes.safetensors"
    planners = {name: build("refined", outcomes=str(model), **options) for name, options in RANKINGS.items()}
    names = split("validation")
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in planners}
    objects, rng = [], np.random.default_rng(arguments.seed)
    for number in range(arguments.scenes):
        name = names[number % len(names)]
        try:
            scene = build_scene(SceneSpec(name, "E", int(rng.integers(2**31))))
        except SceneError:
            continue
        with scene:
            objects.append(name)
            for ranking, planner in planners.items():
                rows[ranking].append(tried(scene, planner, number))
        show("rankings", number + 1, {"success": float(np.mean([r["success"] for r in rows["network alone"]]))})
    return {"scenes": len(objects), **{name: summary(rows[name], rows["network alone"], objects) for name in rows}}


def tried(scene: Any, planner: Any, seed: int) -> dict[str, Any]:
    """One plan, executed; without a grasp nothing moves."""
    plan = planner.plan(scene.view, scene.robot.gripper, rng=np.random.default_rng(seed))
    if plan.grasp is None:
        return {"success": False, "moved": 0.0, "force": 0.0, "grasp": None}
    before = scene.object_pose[:2, 3]
    outcome = scene.execute(plan.grasp)
    moved = float(np.linalg.norm(scene.object_pose[:2, 3] - before))
    scene.restore()
    return {"success": outcome.success, "moved": moved, "force": outcome.contact_force, "grasp": plan.grasp}


def summary(rows: list[dict[str, Any]], plain: list[dict[str, Any]], objects: list[str]) -> dict[str, Any]:
    """Totals of a ranking, and its paired difference from the network alone."""
    values = {key: np.array([row[key] for row in rows], dtype=float) for key in ("success", "moved", "force")}
    base = {key: np.array([row[key] for row in plain], dtype=float) for key in values}
    success, push = (paired_difference(base[key], values[key], objects) for key in ("success", "moved"))
    both = (values["success"] > 0) & (base["success"] > 0)
    return {
        "successes": int(values["success"].sum()),
        "other_grasp": sum(row["grasp"] != other["grasp"] for row, other in zip(rows, plain, strict=True)),
        "mean_moved_mm": float(1e3 * values["moved"].mean()),
        "mean_force_n": float(values["force"].mean()),
        "moved_mm_where_both_succeed": float(1e3 * values["moved"][both].mean()),
        "moved_mm_of_network_alone_there": float(1e3 * base["moved"][both].mean()),
        "difference_of_success": success[0],
        "interval_of_success": list(success[1]),
        "difference_of_moved_mm": 1e3 * push[0],
        "interval_of_moved_mm": [1e3 * bound for bound in push[1]],
    }


def training(arguments: argparse.Namespace) -> dict[str, Any]:
    """Refiners trained from nothing on the labels, without and with further grasps that the outcome model labels.

    A third learns from twice as many labels a step, as much as the second sees in all.
    """
    plain = TrainConfig(
        labels=tuple(arguments.labels), validation=tuple(arguments.validation), steps=arguments.train_steps,
        execute_batch=192, move_batch=24, warm_up=arguments.train_steps, evaluate_every=100, device="cpu",
    )  # fmt: skip
    teacher = arguments.runs / "from-nothing/outcomes.safetensors"
    found: dict[str, Any] = {"steps": arguments.train_steps}
    conditions: dict[str, dict[str, Any]] = {
        "labels alone": {},
        "twice the labels a step": {"execute_batch": 384},
        "labels and the model's": {"outcome_model": teacher, "virtual_batch": 192},
    }
    for name, changes in conditions.items():
        runs = []
        for seed in range(arguments.seeds):
            out = arguments.runs / f"refiner-{name.replace(' ', '-')}-{seed}"
            config = dataclasses.replace(plain, out=out, seed=seed, **changes)
            final = train(config, functools.partial(show, name))["final"]
            runs.append({key: final[key] for key in ("validation_loss", "validation_auroc")})
        found[name] = runs
    return found


def show(what: str, step: int, figures: dict[str, float]) -> None:
    if step % 50 == 0:
        print(what, step, {name: round(value, 3) for name, value in figures.items()}, flush=True)


PARTS = {"predictions": predictions, "rankings": rankings, "training": training}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=Path, nargs="+", default=_SETTINGS.labels)
    parser.add_argument("--validation", type=Path, nargs="+", default=_SETTINGS.validation)
    parser.add_argument("--runs", type=Path, default=Path("runs/outcomes-benchmark"), help="where models are kept")
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--steps", type=int, default=1000, help="of the fit from nothing; twice on the shipped trunk")
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--train-steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=400)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kept = arguments.json is not None and arguments.json.is_file()
    results: dict[str, Any] = read_json(arguments.json) if kept else {}
    for part in arguments.parts:
        results[part] = {**PARTS[part](arguments), "provenance": provenance(arguments.seed)}
        if arguments.json is not None:
            write_json(arguments.json, results)


if __name__ == "__main__":
    main()
