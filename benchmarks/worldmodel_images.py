"""The recurrent image model on held-out episodes: what it reads off images, what it predicts, what it pictures.

keygrasp worldmodel collect --out runs/images-held-out --episodes 30 --seed 100000 --images
python benchmarks/worldmodel_images.py --model images.safetensors --data runs/images-held-out --training images.json
    --json benchmarks/results/worldmodel-images.json --picture docs/images/worldmodel-images.png
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from keygrasp.files import read_json, write_json
from keygrasp.provenance import provenance
from keygrasp.worldmodel.episodes import Episode, read_episodes
from keygrasp.worldmodel.recurrent import RecurrentModel, reward_leak
from keygrasp.worldmodel.recurrent_scores import follow, image_scores, imagined_pictures
from keygrasp.worldmodel.recurrent_training import load_images_model
from keygrasp.worldmodel.task_files import shipped_task, shipped_tasks

_CONTEXT, _STEPS, _EVERY, _TILE, _GAP = 5, 15, 3, 128, 6


def leaks(model: RecurrentModel, episodes: list[Episode]) -> dict[str, float]:
    """Largest change of the reward of each shipped task where residual parts are permuted."""
    belief = follow(model, episodes, _CONTEXT)
    generator = torch.Generator().manual_seed(0)
    actions = torch.rand(len(episodes), 5, generator=generator) * 2 - 1
    return {
        name: reward_leak(model, shipped_task(name, model.layout), belief, actions, generator)
        for name in shipped_tasks()
    }


def montage(rows: list[Tensor]) -> np.ndarray:
    """Rows of pictures (n, 4, 64, 64): colours above heights, BGR."""
    strips = []
    for pictures in rows:
        colours = pictures[:, :3].permute(0, 2, 3, 1).numpy()[..., ::-1]
        height = ((0.8 - pictures[:, 3].numpy()) / 0.2).clip(0, 1)
        heights = np.stack([cv2.applyColorMap((255 * h).astype(np.uint8), cv2.COLORMAP_VIRIDIS) for h in height])
        strips += [(255 * colours).round().astype(np.uint8), heights]
    lines = []
    for strip in strips:
        tiles = [cv2.resize(np.ascontiguousarray(t), (_TILE, _TILE), interpolation=cv2.INTER_NEAREST) for t in strip]
        lines.append(np.concatenate([np.pad(t, ((0, _GAP), (0, _GAP), (0, 0)), constant_values=255) for t in tiles], 1))
    return np.concatenate(lines)


def _figure(value: float | None) -> str:
    return "    –" if value is None else f"{value:5.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--training", type=Path, help="figures of the training, as 'train --json' wrote them")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = load_images_model(arguments.model, symbols_from="images")
    episodes = [e for e in read_episodes(arguments.data, model.layout) if len(e) >= _CONTEXT + _STEPS]
    scores = image_scores(model, episodes)
    ahead = ", ".join(str(score.steps) for score in scores)
    print(f"{scores[0].pieces} pieces of {len(episodes)} episodes; R², then F1, {ahead} decisions ahead")
    for name in (*scores[0].r2, *scores[0].f1):
        print(f"{name:15}", *(_figure((score.r2 | score.f1)[name]) for score in scores))
    results = {
        "episodes": len(episodes),
        "context": _CONTEXT,
        "scores": [dataclasses.asdict(score) for score in scores],
        "reward_leak": leaks(model, episodes),
        "training": read_json(arguments.training) if arguments.training else None,
        "provenance": provenance(0),
    }
    print(results["reward_leak"])
    if arguments.json:
        write_json(arguments.json, results)
    if arguments.picture:
        real, imagined = imagined_pictures(model, episodes[0], _CONTEXT, _STEPS)
        cv2.imwrite(str(arguments.picture), montage([real[::_EVERY], imagined[::_EVERY]]))


if __name__ == "__main__":
    main()
