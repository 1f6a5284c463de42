"""Steps a second of batched refinement without physics, and labels a second of the contact model.

A step moves half of the grasps and executes one in ``--execute``; without images nothing is observed, with them the
network's inputs are made each step as a learner needs them.

    python benchmarks/virtual.py --json benchmarks/results/virtual.json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from keygrasp.experience.contact_model import ContactModel
from keygrasp.experience.solids import SolidScenes
from keygrasp.files import write_json
from keygrasp.objects import split
from keygrasp.perception import perceive
from keygrasp.protocol import SceneSpec, build_scene
from keygrasp.provenance import provenance
from keygrasp.refine.actions import EXECUTE
from keygrasp.refine.state import SceneTensors
from keygrasp.refine.virtual import virtual_refinement
from keygrasp.scene import GripperSpec


def scenes(names: list[str], seed: int) -> tuple[SolidScenes, SceneTensors]:
    """True geometry and images of settled objects."""
    objects, poses, seen = [], [], []
    for name in names:
        with build_scene(SceneSpec(name, "E", seed)) as scene:
            found = perceive(scene.view)
            if found.segments:
                objects.append(scene.prepared)
                poses.append(scene.object_pose)
                seen.append(found)
    return SolidScenes.build(objects, poses), SceneTensors.build(
        [f.height_map for f in seen], [f.keypoints[0] for f in seen]
    )


def rate(work: Callable[[], Any], count: int, device: torch.device, seconds: float) -> float:
    """Things a second of ``work``, which does ``count`` of them."""
    work()
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        done += count
    return done / (time.perf_counter() - begin)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--episodes", type=int, default=0, help="episodes side by side (default: 4096, on a GPU 262144)"
    )
    parser.add_argument("--execute", type=float, default=0.1, help="share of steps that execute")
    parser.add_argument("--objects", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    episodes = options.episodes or (262_144 if device.type == "cuda" else 4096)
    solids, images = scenes(split("validation")[: options.objects], options.seed)
    solids, images, gripper = solids.to(device), images.to(device), GripperSpec()
    torch.manual_seed(options.seed)
    model = ContactModel().eval().to(device)  # speed doesn't depend on what it has learned
    generator = torch.Generator(device).manual_seed(options.seed)
    moves = torch.randint(EXECUTE, (episodes,), generator=generator, device=device)
    actions = torch.where(torch.rand(episodes, generator=generator, device=device) < options.execute, EXECUTE, moves)
    blind = virtual_refinement(solids, model, gripper, episodes, seed=options.seed)
    seeing = virtual_refinement(solids, model, gripper, episodes, images=images, seed=options.seed)

    def observed() -> None:
        seeing.step(actions)
        seeing.observe()

    measured = {
        "steps, nothing observed": rate(lambda: blind.step(actions), episodes, device, options.seconds),
        "steps, observed": rate(observed, episodes, device, options.seconds),
        "labels of executions": rate(
            lambda: model.success(solids, blind.scene, blind.grasps, gripper), episodes, device, options.seconds
        ),
    }
    table = Table(title=f"{episodes} episodes on {device.type}")
    table.add_column("")
    table.add_column("a second", justify="right")
    for name, value in measured.items():
        table.add_row(name, f"{value:,.0f}")
    Console().print(table)
    if options.json is not None:
        settings = {"episodes": episodes, "execute": options.execute, "device": device.type}
        write_json(options.json, {"settings": settings, "per_second": measured, "provenance": provenance(options.seed)})


if __name__ == "__main__":
    main()
