r"""Which trials teach the refiner most: schedulers on real grasp trials, from executions that were made once.

    keygrasp collect configs/curriculum-pool.yaml        # physics, resumable: half a core-hour to two
    keygrasp collect configs/curriculum-probe.yaml       # a sixth of that
    python benchmarks/curriculum_grasps.py --json benchmarks/results/curriculum-grasps.json

Reduced, for two cores (a seventh of the physics, a quarter of the trials):

    keygrasp collect configs/curriculum-pool-small.yaml
    keygrasp collect configs/curriculum-probe-small.yaml
    python benchmarks/curriculum_grasps.py --pool runs/curriculum-small/pool --probe runs/curriculum-small/probe \
        --journal runs/curriculum-small/study.jsonl --schedulers uniform history graph \
        --rounds 16 --budget 128 --steps 30 --batch 128 --json benchmarks/results/curriculum-grasps-small.json

A sample is an object in a pose. A trial draws three of the sample's executed grasps, and the network's favourite of
them is "executed": its outcome is looked up. So each scheduler spends trials as it likes, on the same physics. The
refiner's network learns from all outcomes so far, round by round, and is tried on validation objects that it never
learns from.

One training object in ten is withheld: no scheduler may try it. The error of these objects' estimates is measured
against 32 trials of the network of that round.
"""

from __future__ import annotations

import argparse
import dataclasses
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track
from torch.nn import functional

from keygrasp.curriculum import Scheduler, make_scheduler
from keygrasp.curriculum.grasp_features import pose_features_of_rows, standardise
from keygrasp.curriculum.simulation import spearman
from keygrasp.experience.labels import PROPOSALS, LabelFolder
from keygrasp.files import write_json
from keygrasp.protocol.statistics import auroc
from keygrasp.provenance import provenance
from keygrasp.refine.actions import EXECUTE
from keygrasp.refine.dataset import GraspDataset, load_dataset
from keygrasp.refine.network import QNetwork
from keygrasp.refine.state import featurise
from keygrasp.trials.journal import Journal

Json = dict[str, Any]
_SCHEDULERS = ("uniform", "history", "knn", "replay", "learnability", "graph")
#: Grasps among which a trial's network chooses.
_CHOICE = 3
_PROBE_TRIALS = 32
_WITHHELD = 10
#: Rounds between two measurements of the estimates.
_MEASURED = 4
Trials = list[np.ndarray]


@dataclass(frozen=True)
class Study:
    """Settings of all runs."""

    pool: str
    probe: str
    rounds: int
    budget: int
    steps: int
    batch: int = 256
    most: int = 8
    device: str = "cpu"


class Pool:
    """Executed grasps by sample, and what the network of a round thinks of them."""

    def __init__(self, data: GraspDataset) -> None:
        self.data = data
        self.scene = data.scene.cpu().numpy()
        self.success = data.success.cpu().numpy() > 0.5
        self.rows = [np.flatnonzero(self.scene == i) for i in range(len(data.objects))]
        keypoints, mask = data.scenes.keypoints.cpu().numpy(), data.scenes.mask.cpu().numpy()
        self.features = standardise([pose_features_of_rows(k, m) for k, m in zip(keypoints, mask, strict=True)])
        names = sorted(set(data.objects))
        kept_back = set(names[::_WITHHELD])
        self.withheld = np.array([name in kept_back for name in data.objects])

    def score(self, network: QNetwork, rows: np.ndarray) -> np.ndarray:
        """The network's logits of some executed grasps; NaN for the others."""
        data, scores = self.data, np.full(len(self.scene), np.nan)
        with torch.inference_mode():
            for r in torch.split(torch.from_numpy(rows).to(data.scene.device), 1024):
                features = featurise(data.scenes, data.scene[r], data.grasps[r], data.gripper)
                scores[r.cpu().numpy()] = network.execute_logit(features).cpu().numpy()
        return scores

    def attempt(self, network: QNetwork, ids: np.ndarray, trials: np.ndarray, rng: np.random.Generator) -> Trials:
        """Rows of the grasps that the network chooses in so many trials of each sample: one array a sample."""
        drawn = [
            self.rows[i][rng.integers(len(self.rows[i]), size=(n, _CHOICE))] for i, n in zip(ids, trials, strict=True)
        ]
        scores = self.score(network, np.unique(np.concatenate([d.ravel() for d in drawn])))
        return [d[np.arange(len(d)), scores[d].argmax(axis=1)] for d in drawn]


def tail(folder: Path, data: GraspDataset) -> np.ndarray:
    """Which scenes of a dataset belong to the tail: the reference planner's grasp fails, or there is none."""
    flags, at = np.zeros(len(data.objects), dtype=bool), 0
    grasps, scene = data.grasps.cpu().numpy(), data.scene.cpu().numpy()
    for labels in LabelFolder.open(folder).scenes():  # those without a perceived object are not in the data
        if (
            at < len(flags)
            and labels.object_name == data.objects[at]
            and np.array_equal(labels.grasps, grasps[scene == at])
        ):
            planned = np.flatnonzero(labels.proposal == PROPOSALS.index("planner"))
            flags[at] = not (len(planned) and labels.success[planned[0]])
            at += 1
    assert at == len(flags)
    return flags


def one_run(study: Study, name: str, seed: int) -> Json:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.default_rng([seed, 1])
    device = torch.device(study.device)
    pool, probe = (Pool(load_dataset([Path(folder)]).to(device)) for folder in (study.pool, study.probe))
    hard = tail(Path(study.probe), probe.data)
    open_samples = np.flatnonzero(~pool.withheld)
    scheduler = make_scheduler(name, pool.features, seed=seed)
    scheduler.allocation = dataclasses.replace(scheduler.allocation, least=2, most=study.most)
    network = QNetwork().to(device)
    optimiser = torch.optim.AdamW(network.parameters(), 1e-3, weight_decay=0.05)
    revealed = np.zeros(len(pool.scene), dtype=bool)
    history: list[Json] = []
    measured: list[Json] = []
    for number in range(study.rounds):
        ids, trials = _allocated(scheduler, open_samples, study.budget, first=number == 0, rng=rng)
        executed = pool.attempt(network, ids, trials, rng)
        successes = np.array([pool.success[rows].sum() for rows in executed])
        scheduler.update(ids, successes, trials)
        revealed[np.concatenate(executed)] = True
        _learn(network, optimiser, pool.data, np.flatnonzero(revealed), study, seed * 1000 + number)
        history.append(
            {
                "trials": (number + 1) * study.budget,
                "labels": int(revealed.sum()),
                "mixed": float(np.mean((successes > 0) & (successes < trials))),
                **_on_probes(probe, hard, probe.score(network, np.arange(len(probe.scene)))),
            }
        )
        if (number + 1) % _MEASURED == 0:
            measured.append(_estimates(pool, scheduler, network, np.random.default_rng([seed, 2, number])))
    return {"scheduler": name, "seed": seed, "tail_scenes": int(hard.sum()), "history": history, "estimates": measured}


def _allocated(
    scheduler: Scheduler, allowed: np.ndarray, budget: int, *, first: bool, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A round's trials, within the samples that are not withheld; the first round is the same for all schedulers."""
    if first:
        return np.sort(rng.choice(allowed, budget // 4, replace=False)), np.full(budget // 4, 4)
    given = scheduler.allocate(budget, among=allowed)
    return given.ids, given.trials


def _learn(
    network: QNetwork, optimiser: torch.optim.Optimizer, data: GraspDataset, rows: np.ndarray, study: Study, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.from_numpy(rows)
    for _ in range(study.steps):
        chosen = labels[torch.randint(len(labels), (study.batch,), generator=generator)].to(data.scene.device)
        flip = (torch.randint(0, 2, (study.batch, 2), generator=generator).float() * 2 - 1).to(data.scene.device)
        logits = network(featurise(data.scenes, data.scene[chosen], data.grasps[chosen], data.gripper, flip))[
            :, EXECUTE
        ]
        loss = functional.binary_cross_entropy_with_logits(logits, data.success[chosen])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimiser.step()


def _on_probes(probe: Pool, hard: np.ndarray, scores: np.ndarray) -> Json:
    """Success of the network's favourite grasp of each validation scene."""
    best = np.array([probe.success[rows[scores[rows].argmax()]] for rows in probe.rows])
    area = auroc(scores, probe.success)
    return {"tail": float(best[hard].mean()), "all": float(best.mean()), "auroc": area}


def _estimates(pool: Pool, scheduler: Scheduler, network: QNetwork, rng: np.random.Generator) -> Json:
    """Errors of the estimates against 32 trials of the present network, on withheld objects and on the others."""
    mean = scheduler.estimate().mean
    every = np.arange(len(pool.rows))
    executed = pool.attempt(network, every, np.full(len(every), _PROBE_TRIALS), rng)
    truth = np.array([pool.success[rows].mean() for rows in executed])
    figures: Json = {}
    for name, part in (("withheld", pool.withheld), ("open", ~pool.withheld)):
        figures[f"mae_{name}"] = float(np.abs(mean - truth)[part].mean())
        figures[f"spearman_{name}"] = spearman(mean[part], truth[part])
    return figures


def summarise(runs: list[Json], window: int = 3) -> Json:
    """Curves of each scheduler over seeds, and trials to the level that uniform trials end at."""

    def smooth(values: np.ndarray) -> np.ndarray:
        return np.stack(
            [values[:, max(0, i - window + 1) : i + 1].mean(axis=1) for i in range(values.shape[1])], axis=1
        )

    by_name: dict[str, list[Json]] = {}
    for run in sorted(runs, key=lambda run: (run["scheduler"], run["seed"])):
        by_name.setdefault(run["scheduler"], []).append(run)
    curves = {
        name: {
            key: np.array([[h[key] for h in run[kind]] for run in part])
            for kind in ("history", "estimates")
            for key in part[0][kind][0]
        }
        for name, part in by_name.items()
    }
    summary: Json = {}
    for name, found in curves.items():
        entry: Json = {key: [round(float(v), 4) for v in values.mean(axis=0)] for key, values in found.items()}
        entry["final"] = {
            key: {"mean": float(v[:, -window:].mean()), "sd_over_seeds": float(v[:, -window:].mean(axis=1).std())}
            for key, v in found.items()
        }
        for key in ("tail", "all", "auroc") if "uniform" in curves else ():
            level, usual = (smooth(curve[key]).mean(axis=0) for curve in (found, curves["uniform"]))
            entry[f"trials_over_uniform_{key}"] = _trials_over_uniform(found["trials"][0], level, usual)
        summary[name] = entry
    return summary


def _trials_over_uniform(trials: np.ndarray, level: np.ndarray, usual: np.ndarray) -> Json:
    """Trials to the levels at which uniform trials end, over those that uniform trials need; median of five levels.

    One level that is crossed by chance says little: they go from 90% to 100% of the end's. ``None`` where it is never
    reached.
    """
    shares = []
    for goal in np.linspace(0.9, 1.0, 5) * usual[-1]:
        own, base = (np.flatnonzero(curve >= goal) for curve in (level, usual))
        shares.append(float(trials[own[0]] / trials[base[0]]) if len(own) else np.inf)
    finite = [share if np.isfinite(share) else None for share in (*shares, float(np.median(shares)))]
    return {"median": finite[-1], "by_level": finite[:-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", type=Path, default=Path("runs/curriculum/pool"))
    parser.add_argument("--probe", type=Path, default=Path("runs/curriculum/probe"))
    parser.add_argument("--schedulers", nargs="+", default=list(_SCHEDULERS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=24, help="at least 4")
    parser.add_argument("--budget", type=int, default=384, help="trials a round")
    parser.add_argument("--steps", type=int, default=50, help="gradient steps a round")
    parser.add_argument("--batch", type=int, default=256, help="labels a gradient step")
    parser.add_argument("--most", type=int, default=8, help="trials of a sample in a round, at most")
    parser.add_argument("--workers", type=int, default=2, help="processes, one run each; they may share one GPU")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--journal", type=Path, default=Path("runs/curriculum/study.jsonl"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    study = Study(
        str(arguments.pool),
        str(arguments.probe),
        arguments.rounds,
        arguments.budget,
        arguments.steps,
        arguments.batch,
        arguments.most,
        device=arguments.device,
    )
    wanted = [(name, seed) for seed in range(arguments.seeds) for name in arguments.schedulers]
    with Journal(arguments.journal, dataclasses.asdict(study)) as book:
        done = {(run["scheduler"], run["seed"]) for run in book.records}
        missing = [pair for pair in wanted if pair not in done]
        with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as executor:
            jobs = [executor.submit(one_run, study, name, seed) for name, seed in missing]
            for job in track(as_completed(jobs), total=len(jobs), description="runs"):
                book.append([job.result()])
        runs = [run for run in book.records if (run["scheduler"], run["seed"]) in set(wanted)]
    summary = summarise(runs)
    for name, entry in summary.items():
        final = entry["final"]
        share = entry.get("trials_over_uniform_tail", {}).get("median")
        print(
            f"{name:14} tail {final['tail']['mean']:.3f} ± {final['tail']['sd_over_seeds']:.3f}"
            f"  AUROC {final['auroc']['mean']:.3f}  mixed {final['mixed']['mean']:.2f}"
            f"  MAE withheld {final['mae_withheld']['mean']:.3f}  Spearman {final['spearman_withheld']['mean']:.3f}"
            f"  trials/uniform {'never' if share is None else f'{share:.2f}'}"
        )
    if arguments.json is not None:
        data = {"study": dataclasses.asdict(study), "seeds": arguments.seeds, "schedulers": summary}
        write_json(arguments.json, {**data, "tail_scenes": runs[0]["tail_scenes"], "provenance": provenance(0)})


if __name__ == "__main__":
    main()
