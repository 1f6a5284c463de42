"""Collects labels: many grasps executed in physics on many scenes, in parallel, resumable shard by shard."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from keygrasp.configuration import MOST_SEED, check_ranges
from keygrasp.curriculum import SCHEDULERS
from keygrasp.errors import ConfigurationError, ImageError, InputError
from keygrasp.experience.labels import OUTCOMES, PROPOSALS, SceneLabels, read_shard, write_index, write_shard
from keygrasp.experience.schedule import ObjectSchedule
from keygrasp.files import read_json, sole_writer
from keygrasp.grasps import grasp_array, grasps_from_array, random_feasible
from keygrasp.objects import Rule, split
from keygrasp.perception import Perceived, perceive
from keygrasp.protocol import Scene, SceneError, SceneSpec, build_scene
from keygrasp.scene import GripperSpec, Planner
from keygrasp.trials.journal import differing
from keygrasp.trials.planners import PlannerSpec, build_planner, planner_spec
from keygrasp.trials.pool import run_tasks

Array = NDArray[np.float64]
Json = dict[str, Any]

#: Spread of perturbed planner grasps: metres along x and y, metres in z, radians of yaw, metres of width.
_PERTURBATION = (0.006, 0.006, 0.006, 0.20, 0.010)
_LOWEST, _HIGHEST = 0.002, 0.25
#: Shards between two decisions of a scheduler.
_ROUND_SHARDS = 8


#: Least and most of each number.
_RANGES: dict[str, tuple[float, float]] = {
    "scenes": (1, 10_000_000),
    "random": (0, 10_000),
    "planned": (0, 10_000),
    "perturbed": (0, 10_000),
    "scenes_per_shard": (1, 1000),
    "seed": (0, MOST_SEED),
    "workers": (1, 1024),
}


@dataclass(frozen=True)
class CollectConfig:
    """What to collect.

    Attributes:
        out: Folder for the labels; shards that are there already are kept.
        split: Object split: ``train`` or ``validation`` (``test`` is refused).
        rule: Scaling rule: those of KG-1, or S and M for small and medium objects.
        objects: How many of the split's objects, drawn with the seed; 0 takes all.
        scenes: Scenes in all, spread evenly over the objects.
        random: Random feasible grasps a scene.
        planned: Grasps a scene from the planners: their best candidates, at least the first choice of each; or 0.
        perturbed: Perturbed copies of planners' candidates a scene.
        planners: Names of the planners that propose (options such as weights: ``weights``).
        weights: Weights for planners that use the network; empty for the shipped ones.
        scheduler: Who decides which objects come next: ``even`` spreads scenes evenly, else a name of
            ``keygrasp.curriculum.make_scheduler``, which follows the success of the planners' grasps.
        scenes_per_shard: Scenes a shard, the unit of resuming.
        seed: Seed of scenes and proposals.
        workers: Processes.
    """

    out: Path = Path("runs/labels/train")
    split: str = "train"
    rule: Rule = "E"
    objects: int = 0
    scenes: int = 1200
    random: int = 14
    planned: int = 4
    perturbed: int = 6
    planners: tuple[str, ...] = ("geometric",)
    weights: str = ""
    scheduler: str = "even"
    scenes_per_shard: int = 10
    seed: int = 0
    workers: int = 2

    def __post_init__(self) -> None:
        if self.split not in ("train", "validation"):
            raise ConfigurationError(f"collect: split is {self.split!r}", "Test objects are never learned from")
        rules = [rule for rule in get_args(Rule) if rule != "none"]  # the embedded objects have no size of their own
        if self.rule not in rules:
            raise ConfigurationError(f"collect: rule is {self.rule!r}", f"Known: {', '.join(rules)}")
        known = ("even", *SCHEDULERS)
        if self.scheduler not in known:
            raise ConfigurationError(f"collect: scheduler is {self.scheduler!r}", f"Known: {', '.join(known)}")
        check_ranges(self, "collect", _RANGES)
        limit = len(split(self.split))
        if not 0 <= self.objects <= limit:
            raise ConfigurationError(f"collect: objects is {self.objects}", f"'{self.split}' has {limit}; 0 takes all")
        if "oracle" in [planner_spec(name).name for name in self.planners]:
            raise ConfigurationError("collect: the oracle looks behind the image", "Name another planner")
        if not self.random + self.planned + self.perturbed:
            raise ConfigurationError("collect: random, planned and perturbed are 0", "Ask for grasps of one kind")


@dataclass(frozen=True)
class CollectProgress:
    """How far a collection is: shards done of all, grasps and successes in this run."""

    shards: int
    total: int
    grasps: int
    successes: int


def collect(config: CollectConfig, on_progress: Callable[[CollectProgress], None] | None = None) -> CollectProgress:
    """Collect labels into ``config.out``; goes on where an earlier run with the same configuration stopped.

    Raises:
        InputError: If the folder holds labels of another configuration, another run writes into it, or a shard fails
            twice (the others are kept).
        StorageError: If the folder can't be written.
    """
    with sole_writer(config.out):
        return _collect(config, on_progress)


def _collect(config: CollectConfig, on_progress: Callable[[CollectProgress], None] | None) -> CollectProgress:
    """See :func:`collect`; the folder is this run's alone."""
    fingerprint = _fingerprint(config)
    _check_folder(config.out, fingerprint)
    if config.weights and not Path(config.weights).is_file():
        raise InputError(f"there are no weights at {config.weights}", "Check 'weights', or leave it out")
    state = CollectProgress(0, -(-config.scenes // config.scenes_per_shard), 0, 0)
    setup = {"config": fingerprint, "out": str(config.out)}
    for every in _rounds(config):
        tasks = [t for t in every if not (config.out / t["file"]).is_file()]
        state = dataclasses.replace(state, shards=state.shards + len(every) - len(tasks))
        if on_progress is not None:  # at once: the first shard takes its time
            on_progress(state)
        for done in run_tasks("keygrasp.experience.collect:make_worker", setup, tasks, workers=config.workers):
            if done.result is None:
                raise InputError(f"shard {tasks[done.index]['file']} failed: {done.problem}", "Run again to retry it")
            state = CollectProgress(
                state.shards + 1,
                state.total,
                state.grasps + done.result["grasps"],
                state.successes + done.result["successes"],
            )
            if on_progress is not None:
                on_progress(state)
    return state


def _check_folder(out: Path, fingerprint: Json) -> None:
    """Refuse a folder whose labels were made with other settings, or nobody knows with which."""
    index = out / "index.json"
    if not index.is_file():
        if any(out.glob("shard-*.npz")):
            raise InputError(f"{out} has shards but no index.json", "Choose another folder")
        return
    data = read_json(index)
    old = data.get("config") if isinstance(data, dict) else None
    if old != fingerprint:
        raise InputError(
            f"{out} holds labels of another configuration (different: {differing(old, fingerprint)})",
            "Choose another folder, or give the same settings",
        )


def _rounds(config: CollectConfig) -> Iterator[list[Json]]:
    """Shards to make, in rounds: a scheduler chooses each round by the shards of those before."""
    if config.scheduler == "even":
        yield _shard_tasks(config)
        return
    schedule = ObjectSchedule(_objects(config), config.rule, config.scheduler, config.seed)
    begun = 0
    while begun < config.scenes:
        count = min(_ROUND_SHARDS * config.scenes_per_shard, config.scenes - begun)
        rng = np.random.default_rng([config.seed, 3, begun])
        names = [str(name) for name in rng.permutation(schedule.choose(count))]
        seeds = rng.integers(2**31, size=count)
        tasks = _shards([[name, int(s)] for name, s in zip(names, seeds, strict=True)], config, begun)
        yield tasks
        schedule.learn(scene for task in tasks for scene in read_shard(config.out / task["file"]))
        begun += count


def make_worker(setup: Json) -> Callable[[Json], Json]:
    """Handler of :func:`keygrasp.trials.pool.run_tasks`: writes the shard that a task describes."""
    values = {**setup["config"], "planners": tuple(setup["config"]["planners"]), "out": Path(setup["out"])}
    config = CollectConfig(**values)
    planners = [build_planner(_planner(name, config)) for name in config.planners]

    def work(task: Json) -> Json:
        scenes = []
        for name, seed in task["scenes"]:
            try:
                scene = build_scene(SceneSpec(name, config.rule, seed))
            except SceneError:  # an object that doesn't settle in view in this pose teaches nothing
                continue
            with scene:
                labels = _label(scene, name, seed, planners, config)  # type: ignore[arg-type]
                if not (config.out / "index.json").is_file():
                    write_index(config.out, scene.view, scene.robot.gripper, setup["config"])
            if labels is not None:
                scenes.append(labels)
        write_shard(config.out / task["file"], scenes)
        return {
            "grasps": sum(len(s.grasps) for s in scenes),
            "successes": int(sum(s.success.sum() for s in scenes)),
        }

    return work


def _label(scene: Scene, name: str, seed: int, planners: list[Planner], config: CollectConfig) -> SceneLabels | None:
    """Execute proposals on one scene; ``None`` where the image shows no object."""
    rng = np.random.default_rng([config.seed, seed])
    try:
        perceived = perceive(scene.view)
    except ImageError:
        return None
    if not perceived.segments:
        return None
    grasps, proposal = _propose(scene, perceived, planners, config, rng)
    pose = scene.object_pose
    outcomes, moved = [], []
    for grasp in grasps_from_array(grasps):
        outcomes.append(scene.execute(grasp))
        moved.append(np.linalg.norm(scene.object_pose[:2, 3] - pose[:2, 3]))
    return SceneLabels(
        object_name=name,
        seed=seed,
        pose=pose,
        depth=scene.view.depth,
        grasps=grasps.astype(np.float32),
        outcome=np.array([OUTCOMES.index(o.outcome) for o in outcomes], dtype=np.uint8),
        proposal=proposal,
        force=np.array([o.contact_force for o in outcomes], dtype=np.float32),
        moved=np.array(moved, dtype=np.float32),
    )


def _propose(
    scene: Scene, perceived: Perceived, planners: list[Planner], config: CollectConfig, rng: np.random.Generator
) -> tuple[Array, NDArray[np.uint8]]:
    """Grasps (n, 5) with the index of their origin (n,)."""
    drawn = random_feasible(perceived, 0, scene.robot.gripper, rng, config.random)
    found = []
    for planner in planners:
        plan = planner.plan(scene.view, scene.robot.gripper, rng=rng)
        best = [plan.grasp] if plan.grasp is not None else []
        found.append(grasp_array([*best, *plan.candidates]))
    every = np.unique(np.concatenate([np.empty((0, 5)), *found]), axis=0)
    # Where planners propose, their first choices always belong to the labels: they are what will be executed.
    share = max(1, config.planned // len(planners)) if planners and config.planned else 0
    planned = np.concatenate([np.empty((0, 5)), *(f[:share] for f in found)])
    perturbed = _perturbed(every, config.perturbed, scene.robot.gripper, rng)
    parts = {"random": drawn, "planner": planned, "perturbed": perturbed}
    origin = np.concatenate([np.full(len(p), PROPOSALS.index(k), np.uint8) for k, p in parts.items()])
    return np.concatenate(list(parts.values())), origin


def _perturbed(grasps: Array, count: int, gripper: GripperSpec, rng: np.random.Generator) -> Array:
    if len(grasps) == 0:
        return np.empty((0, 5))
    chosen = grasps[rng.integers(len(grasps), size=count)]
    moved = chosen + rng.normal(size=chosen.shape) * _PERTURBATION
    moved[:, 2] = np.clip(moved[:, 2], _LOWEST, _HIGHEST)
    moved[:, 4] = np.clip(moved[:, 4], gripper.min_opening, gripper.max_opening)
    return np.asarray(moved)


def _planner(name: str, config: CollectConfig) -> PlannerSpec:
    needs_weights = config.weights and name in ("refined", "argmax", "cem", "climb")
    return planner_spec(name, **({"weights": config.weights} if needs_weights else {}))


def _shard_tasks(config: CollectConfig) -> list[Json]:
    """Scenes of each shard, in an order that mixes the objects."""
    names = _objects(config)
    rng = np.random.default_rng([config.seed, 1])
    order = [names[i] for _ in range(-(-config.scenes // len(names))) for i in rng.permutation(len(names))]
    seeds = rng.integers(2**31, size=config.scenes)
    scenes = [[name, int(seed)] for name, seed in zip(order, seeds, strict=False)]
    return _shards(scenes, config, 0)


def _shards(scenes: list[list[Any]], config: CollectConfig, before: int) -> list[Json]:
    """Scenes divided into shards, which are numbered on from ``before`` scenes."""
    size = config.scenes_per_shard
    return [
        {"file": f"shard-{(before + begin) // size:05d}.npz", "scenes": scenes[begin : begin + size]}
        for begin in range(0, len(scenes), size)
    ]


def _objects(config: CollectConfig) -> tuple[str, ...]:
    names = split(config.split)
    if not config.objects:
        return names
    chosen = np.random.default_rng([config.seed, 2]).permutation(len(names))[: config.objects]
    return tuple(names[i] for i in np.sort(chosen))


def _fingerprint(config: CollectConfig) -> Json:
    """What the labels depend on, JSON-ready: not where they lie, nor how many processes make them."""
    values = dataclasses.asdict(config)
    del values["out"], values["workers"]
    if config.scheduler == "even":  # as labels from before there were schedulers say
        del values["scheduler"]
    result: Json = json.loads(json.dumps(values))
    return result
