"""How well weights of the refiner tell outcomes of executed grasps, on objects of each size.

python benchmarks/label_sizes.py --labels runs/curriculum/probe runs/labels/val-a0 runs/labels/val-s0 runs/labels/val-m0
    --weights before.safetensors models/refiner.safetensors --json benchmarks/results/label-sizes.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch.nn import functional

from keygrasp.experience.labels import LabelFolder
from keygrasp.files import write_json
from keygrasp.protocol.statistics import auroc
from keygrasp.provenance import provenance
from keygrasp.refine.dataset import GraspDataset, load_dataset
from keygrasp.refine.network import load_network
from keygrasp.refine.state import featurise


@torch.inference_mode()
def scores(weights: Path, data: GraspDataset) -> dict[str, float | None]:
    """AUROC and log loss of the value of *execute*, before calibration."""
    network, _ = load_network(weights)
    network.eval()
    parts = [
        network.execute_logit(featurise(data.scenes, data.scene[rows], data.grasps[rows], data.gripper))
        for rows in torch.split(torch.arange(len(data.grasps)), 512)
    ]
    logits = torch.cat(parts)
    loss = functional.binary_cross_entropy_with_logits(logits, data.success)
    return {"auroc": auroc(logits.numpy(), data.success.numpy()), "log_loss": float(loss)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", nargs="+", type=Path, required=True)
    parser.add_argument("--weights", nargs="+", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for folder in arguments.labels:
        rule, data = LabelFolder.open(folder).rule, load_dataset([folder])
        for weights in arguments.weights:
            found = scores(weights, data)
            rows.append({"rule": rule, "labels": len(data.grasps), "weights": weights.stem, **found})
            print(f"rule {rule}, {len(data.grasps)} labels, {weights.stem}: {found}", flush=True)
    if arguments.json:
        write_json(arguments.json, {"rows": rows, "provenance": provenance(0)})


if __name__ == "__main__":
    main()
