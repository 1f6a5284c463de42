"""How well weights of the refiner tell outcomes of executed grasps, on objects of each size.

python benchmarks/label_sizes.py --labels runs/curriculum/probe runs/labels/val-a0 runs/labels/val-s0 runs/labels/val-m0
    --weights before.safetensors models/refiner.safetensors --json benchmarks/results/label-sizes.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from keygrasp.experience.labels import LabelFolder
from keygrasp.files import write_json
from keygrasp.provenance import provenance
from keygrasp.refine.dataset import load_dataset
from keygrasp.refine.network import load_network
from keygrasp.refine.training import label_scores


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
            found = label_scores(load_network(weights)[0], data)
            rows.append(
                {
                    "rule": rule,
                    "labels": len(data.grasps),
                    "weights": weights.stem,
                    "auroc": found.get("auroc"),
                    "log_loss": found["loss"],
                }
            )
            print(f"rule {rule}, {len(data.grasps)} labels, {weights.stem}: {found}", flush=True)
    if arguments.json:
        write_json(arguments.json, {"rows": rows, "provenance": provenance(0)})


if __name__ == "__main__":
    main()
