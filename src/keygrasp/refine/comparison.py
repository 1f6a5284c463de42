"""Learning speed of the refiner with different potentials: several seeds each, one run a process, resumable."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from keygrasp.errors import InputError, WorkerError
from keygrasp.files import read_json, write_json
from keygrasp.refine.actions import ActionSet
from keygrasp.refine.judges import PhysicsJudge
from keygrasp.refine.online import OnlineConfig, OnlineReport, OnlineTrainer
from keygrasp.refine.vector_environment import RefinementVectorEnv
from keygrasp.shaping.guard import split_guard
from keygrasp.shaping.learning import LearningCurve

#: Seed of the starts from which final policies are checked; training's are smaller numbers.
_CHECK_SEED = 1_000_000


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """One learner.

    Attributes:
        report: What its training did.
        checked: Executions of its final greedy policy in physics.
        held: How many of them succeeded.
    """

    report: OnlineReport
    checked: int
    held: int


def compare_potentials(
    names: Sequence[str],
    config: OnlineConfig,
    seeds: int,
    folder: Path,
    *,
    executions: int = 10,
    workers: int = 0,
    on_run: Callable[[int, int], None] | None = None,
) -> tuple[list[LearningCurve], dict[str, float]]:
    """Learning curves with each potential, and the share of executions of the final policies that held in physics.

    ``worth`` is empty and ``to_enough`` infinite: V* is not known here. Regret is against success at once.

    Args:
        names: Options of ``shaping``; with ``+guard`` behind it a guard is used.
        config: Settings of every run; shaping, guard and seed are replaced.
        seeds: Runs of each.
        folder: Each run's report is kept there as it ends; a run that is there with these settings isn't made again.
        executions: Executions in physics of each final policy.
        workers: Processes; 0 is one a core.
        on_run: Told how many runs are done, of how many.

    Raises:
        InputError: If the folder holds runs with other settings.
        WorkerError: If a process died.
    """
    runs = [(path, one) for name in names for path, one in _runs_of(name, config, seeds, folder)]
    missing = [(path, one, executions) for path, one in runs if _read(path, one, executions) is None]
    done = len(runs) - len(missing)
    try:
        with ProcessPoolExecutor(workers or None, mp_context=get_context("spawn")) as pool:
            for count, _ in enumerate(pool.map(_make, missing), start=done + 1):
                if on_run is not None:
                    on_run(count, len(runs))
    except (OSError, BrokenExecutor) as error:
        raise WorkerError(f"a run failed ({error})", "The same command goes on from the runs that ended") from error
    curves, held = [], {}
    for name in names:
        found = [_read(path, one, executions) for path, one in _runs_of(name, config, seeds, folder)]
        kept = [run for run in found if run is not None]
        curves.append(_curve(name, [run.report for run in kept], config.gamma))
        held[name] = sum(run.held for run in kept) / max(1, sum(run.checked for run in kept))
    return curves, held


def physics_check(trainer: OnlineTrainer, count: int) -> int:
    """How many of ``count`` grasps that the trainer's greedy policy ends at hold in physics."""
    config, judge = trainer.config, PhysicsJudge(trainer.scenes)
    env = RefinementVectorEnv(trainer.perceived, judge, count, starts=config.starts)
    _, infos = env.reset(seed=_CHECK_SEED + config.seed)
    scene, grasps = infos["scene"], infos["grasp"]
    for _ in range(config.max_steps - 1):  # "execute" moves nothing, and is chosen again where it was chosen once
        chosen = trainer.policy(env.features(scene, grasps))
        grasps = ActionSet().apply(torch.from_numpy(grasps), torch.from_numpy(chosen), env.gripper).numpy()
    return sum(int(judge(int(each), grasps[scene == each].astype(float)).sum()) for each in np.unique(scene))


def _runs_of(name: str, config: OnlineConfig, seeds: int, folder: Path) -> list[tuple[Path, OnlineConfig]]:
    shaping, guard = split_guard(name)
    return [
        (
            folder / f"{name}-{config.seed + seed}.json",
            dataclasses.replace(config, shaping=shaping, guard=guard, seed=config.seed + seed),  # type: ignore[arg-type]
        )
        for seed in range(seeds)
    ]


def _make(task: tuple[Path, OnlineConfig, int]) -> None:
    """One run, on one thread, kept in its file."""
    path, config, executions = task
    torch.set_num_threads(1)
    trainer = OnlineTrainer(config)
    try:
        report = trainer.run()
        held = physics_check(trainer, executions) if executions else 0
    finally:
        trainer.close()
    data = {
        "config": _plain(config),
        "success": report.success.astype(int).tolist(),
        "length": report.length.tolist(),
        "guarded": report.guarded.astype(int).tolist(),
        "reward_terms": report.reward_terms,
        "checked": executions,
        "held": held,
    }
    write_json(path, data)


def _read(path: Path, config: OnlineConfig, executions: int) -> Run | None:
    """The run in a file, if there is one."""
    if not path.is_file():
        return None
    data = read_json(path)
    try:
        if data["config"] != _plain(config) or data["checked"] != executions:
            raise InputError(f"{path} is a run with other settings", "Choose another folder, or delete that one")
        arrays = {name: np.array(data[name], dtype=np.int64) for name in ("success", "length", "guarded")}
        if any(values.shape != (config.episodes,) for values in arrays.values()):
            raise InputError(f"{path} doesn't hold {config.episodes} episodes", "Delete it and run again")
        terms = {name: float(data["reward_terms"][name]) for name in ("task", "shaping")}
        held = int(data["held"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a run's report ({error})", "Delete it and run again") from error
    report = OnlineReport(arrays["success"] > 0, arrays["length"], arrays["guarded"] > 0, terms)
    return Run(report, executions, held)


def _plain(config: OnlineConfig) -> Any:
    """The settings as JSON has them."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def _curve(name: str, reports: Sequence[OnlineReport], gamma: float) -> LearningCurve:
    success = np.stack([report.success for report in reports])
    discounted = np.stack([gamma ** (report.length - 1) for report in reports]) * success
    return LearningCurve(
        name,
        success,
        np.zeros((len(reports), 0)),
        np.where(success.any(axis=1), success.argmax(axis=1) + 1.0, np.inf),
        np.full(len(reports), np.inf),
        (1 - discounted).sum(axis=1),
        {key: float(np.mean([report.reward_terms[key] for report in reports])) for key in reports[0].reward_terms},
    )
