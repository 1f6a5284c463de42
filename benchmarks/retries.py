"""What a failed attempt says of the next: success of retries by how the try before failed and how much deeper they go.

keygrasp trials --planners reference cem argmax refined --split train --objects 599 --poses 2 --seed 5 --report R
python benchmarks/retries.py R --json benchmarks/results/retries.json

The stated probability of a retry knows the new image and marks down the failed pose; nothing else of the failure. The
last column is what the log-odds of success are above those stated, by maximum likelihood with a prior of one logit.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

from keygrasp.files import write_json
from keygrasp.provenance import provenance
from keygrasp.trials.report_reading import read_journal

#: Metres by which a retry has to go deeper or higher to count as that.
_SAME = 0.006
_PLANNERS = ("refined", "argmax", "cem")


def retries(folder: Path) -> Iterator[tuple[str, str, float, bool]]:
    """How the try before ended, where the retry goes, the probability that it states, and whether it succeeded."""
    _, records = read_journal(folder / "journal.jsonl")
    for record in records:
        if record.planner not in _PLANNERS:
            continue
        for before, after in zip(record.attempts, record.attempts[1:], strict=False):
            if before.grasp is None or after.grasp is None or after.probability is None:
                continue
            rise = after.grasp[2] - before.grasp[2]
            way = "deeper" if rise < -_SAME else "higher" if rise > _SAME else "same height"
            yield before.outcome, way, after.probability, after.success


def excess(stated: list[float], succeeded: list[bool]) -> float:
    """Shift of the stated log-odds that fits best, with a normal prior of deviation 1: Newton's method."""
    logits = [math.log(min(max(p, 1e-3), 1 - 1e-3) / (1 - min(max(p, 1e-3), 1 - 1e-3))) for p in stated]
    shift = 0.0
    for _ in range(30):
        said = [1 / (1 + math.exp(-logit - shift)) for logit in logits]
        gradient = sum(s - p for s, p in zip(succeeded, said, strict=True)) - shift
        shift += gradient / (1 + sum(p * (1 - p) for p in said))
    return shift


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of a run of trials with several attempts")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    groups: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    for outcome, way, stated, succeeded in retries(arguments.folder):
        groups.setdefault((outcome, way), []).append((stated, succeeded))
    rows = []
    for (outcome, way), found in sorted(groups.items()):
        stated, succeeded = [p for p, _ in found], [s for _, s in found]
        rows.append({"before": outcome, "retry": way, "retries": len(found), "succeeded": sum(succeeded)})
        rows[-1] |= {"stated": sum(stated) / len(found), "excess_log_odds": excess(stated, succeeded)}
        print(
            f"{outcome:18} {way:12} {sum(succeeded):4} of {len(found):4}, stated {rows[-1]['stated']:.2f}, "
            f"log-odds {rows[-1]['excess_log_odds']:+.2f}"
        )
    if arguments.json:
        write_json(arguments.json, {"planners": _PLANNERS, "rows": rows, "provenance": provenance(5)})


if __name__ == "__main__":
    main()
