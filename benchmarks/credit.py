"""Credit assignment: device time, full call and share of the memory floor, beside other implementations.

python benchmarks/credit.py --json benchmarks/results/credit.json        (on a GPU)
python benchmarks/credit.py --cpu --json benchmarks/results/credit-cpu.json
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from credit_compile import compile_ahead
from credit_peers import PEERS, gae_loop, takes, torchrl
from credit_timing import call_us, copy_bandwidth, cpu_ms, device_us, empty_kernel_us, rotated
from credit_workloads import BACKWARD, GAMMA, LAM, LAYOUTS, OPS, SHAPES, Workload, make_inputs, our_call

from keygrasp.files import write_json
from keygrasp.provenance import provenance

Row = dict[str, Any]
OURS = "keygrasp"
#: Peers that a CUDA graph doesn't hold: they wait for the device, or launch on a stream of their own.
UNCAPTURED = ("torchrl", "pufferlib")
QUICK = ((4096, 32), (4096, 128), (16384, 1024), (16, 131072))
#: A peer within this share of our time counts as equal.
TIE = 0.03


def workloads(arguments: argparse.Namespace) -> Iterator[Workload]:
    wanted = [tuple(map(int, text.split("x"))) for text in arguments.shapes] or (QUICK if arguments.quick else SHAPES)
    for rows, steps in wanted:
        for op in arguments.ops:
            for truncation in (False, True):
                for layout in LAYOUTS:
                    yield Workload(op, rows, steps, truncation, layout)


def k_of(work: Workload) -> float:
    """Share of the floor that is the target at this shape."""
    if (work.rows, work.steps) in ((16384, 1024), (8192, 2048)):
        return 0.85 if work.op == "retrace" else 0.90
    return 0.75 if (work.rows, work.steps) in ((4096, 128), (16384, 128)) else 0.5


def measure(
    work: Workload, who: str, build: Callable[[Workload, dict[str, torch.Tensor]], Any], arguments: argparse.Namespace
) -> Row | None:
    """One row: times of one implementation at one workload; ``None`` where it has no such function."""
    calls = rotated(build, work)
    if not calls:
        return None
    row: Row = {"who": who, "op": work.op, "rows": work.rows, "steps": work.steps, "truncation": work.truncation}
    row |= {"layout": work.layout, "bytes": work.bytes}
    seconds = 0.002 if arguments.quick else 0.005
    for name, timed in (("device_us", device_us), ("call_us", call_us)):
        if name == "device_us" and who in UNCAPTURED:
            continue
        try:
            row[name] = timed(calls, seconds)
        except Exception as error:  # a peer that fails at a shape is a finding, not the end of the run
            torch.cuda.synchronize()
            row["error"] = f"{type(error).__name__}: {str(error)[:200]}"
    return row


def run_gpu(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[Row]]:
    begin = time.monotonic()
    empty, empty_call = empty_kernel_us()
    machine = {"copy_bandwidth": copy_bandwidth(), "empty_kernel_us": empty, "empty_call_us": empty_call}
    print(
        f"copy {machine['copy_bandwidth'] / 1e12:.2f} TB/s, empty kernel {empty:.2f} µs, its call {empty_call:.1f} µs",
        flush=True,
    )
    rows: list[Row] = []
    cases = list(workloads(arguments))
    stages = [(OURS, our_call, cases)]
    stages += [(name, PEERS[name], [work for work in cases if takes(name, work)]) for name in arguments.peers]
    compile_ahead([(build, work, None) for who, build, own in stages if who != "torchrl" for work in own])
    for who, build, own in stages:
        for work in own:
            if time.monotonic() - begin > arguments.budget:
                print(f"stopped at {who}, {work.name}: the budget of {arguments.budget:.0f} s is spent", flush=True)
                return machine, rows
            row = measure(work, who, build, arguments)
            if row is not None:
                rows.append(row)
        save(arguments, machine, rows)
        print(f"{who} done after {time.monotonic() - begin:.0f} s", flush=True)
    return machine, rows


def key(row: Row) -> tuple[Any, ...]:
    return row["op"], row["rows"], row["steps"], row["truncation"]


def table(machine: dict[str, Any], rows: list[Row]) -> list[str]:
    """One line a workload: ours, its share of the floor and whether the target is met, and the peers."""
    peers: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["who"] != OURS:
            peers.setdefault(key(row), []).append(row)
    lines = [f"{'op':11}{'N x T':>15} tr layout      device    call  floor share target  peers (device/call)"]
    for row in rows:
        if row["who"] != OURS:
            continue
        if "error" in row:
            lines.append(f"{row['op']:11}{row['rows']:>8}x{row['steps']:<7}{row['error']}")
            continue
        floor, limit = limits(machine, row)
        others = "  ".join(
            f"{peer['who']} {peer.get('device_us', math.nan):.1f}/{peer['call_us']:.1f}"
            for peer in peers.get(key(row), [])
            if "error" not in peer
        )
        lines.append(
            f"{row['op']:11}{row['rows']:>7}x{row['steps']:<8}{'t' if row['truncation'] else '-':>2} {row['layout']:11}"
            f"{row['device_us']:>8.2f}{row['call_us']:>8.1f}{floor:>7.2f}{floor / row['device_us']:>6.2f} "
            f"{'pass' if row['device_us'] <= limit else 'FAIL'} <{limit:.1f}  {others}"
        )
    return lines


def limits(machine: dict[str, Any], row: Row) -> tuple[float, float]:
    """Memory floor and target of one of our rows, in µs."""
    floor = 1e6 * row["bytes"] / machine["copy_bandwidth"]
    work = Workload(row["op"], row["rows"], row["steps"], row["truncation"], row["layout"])
    return floor, max(floor / k_of(work), machine["empty_kernel_us"] + 2)


def verdicts(machine: dict[str, Any], rows: list[Row]) -> list[str]:
    """The targets over all rows."""
    good = [row for row in rows if "error" not in row]
    ours = [row for row in good if row["who"] == OURS]
    missed = [row for row in ours if row["device_us"] > limits(machine, row)[1]]
    lines = [judge(f"device time within the target: {len(ours) - len(missed)} of {len(ours)} cases", not missed)]
    small = [row["call_us"] for row in ours if (row["rows"], row["steps"]) == (4096, 32)]
    if small:
        full = statistics.median(small)
        host = (
            f"; on this host an empty kernel takes {machine['empty_call_us']:.1f}" if "empty_call_us" in machine else ""
        )
        text = f"full call at 4096x32: {full:.1f} µs (target 15{host})"
        lines.append(judge(text, full <= 15))
    same = {(key(row), row["layout"]): row for row in ours}
    for who in sorted({row["who"] for row in good} - {OURS}):
        pairs = [
            (same[key(row), row["layout"]], row)
            for row in good
            if row["who"] == who and (key(row), row["layout"]) in same
        ]
        for measured in ("device_us", "call_us"):
            if measured == "device_us" and who in UNCAPTURED:
                continue
            ratios = [peer[measured] / own[measured] for own, peer in pairs]
            slower = sum(ratio < 1 - TIE for ratio in ratios)
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            enough = not slower and (who != "rl-triton" or mean >= 2)
            lines.append(
                judge(f"{who}, {measured}: {mean:.2f}x faster on average, slower in {slower} of {len(ratios)}", enough)
            )
        long = [
            p["device_us"] / o["device_us"]
            for o, p in pairs
            if who not in UNCAPTURED and o["steps"] == 131072 and o["op"] in BACKWARD
        ]
        if who == "rl-triton" and long:
            lines.append(judge(f"{who} at 16x131072, backward: at least {min(long):.1f}x (target 20)", min(long) >= 20))
    return lines


def judge(text: str, passed: bool) -> str:
    return f"{'pass' if passed else 'FAIL'}  {text}"


def gae_numpy(rewards: Any, values: Any, term: Any, last: Any) -> Any:
    """The loop over time in NumPy, [T, N]."""
    advantages = np.zeros_like(rewards)
    carry = np.zeros_like(last)
    for t in reversed(range(rewards.shape[0])):
        following = last if t == rewards.shape[0] - 1 else values[t + 1]
        alive = np.float32(1) - term[t]
        delta = rewards[t] + np.float32(GAMMA) * following * alive - values[t]
        advantages[t] = carry = delta + np.float32(GAMMA * LAM) * alive * carry
    return advantages


def run_cpu(arguments: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """GAE on one core: the torch backend beside loops over time and TorchRL, in process time."""
    torch.set_num_threads(1)
    rows, lines, good = [], [], True
    for rows_count, steps in ((4096, 128), (4096, 32), (1024, 256), (64, 2048), (16, 16384), (32768, 8)):
        works = {layout: Workload("gae", rows_count, steps, False, layout) for layout in LAYOUTS}
        x = {layout: make_inputs(work, "cpu") for layout, work in works.items()}
        inputs = [x["time-major"][name] for name in ("rewards", "values", "terminated", "last")]
        arrays = [tensor.numpy().astype(np.float32) for tensor in inputs]
        calls: dict[str, Any] = {
            OURS: our_call(works["time-major"], x["time-major"], "torch"),
            f"{OURS}, batch-major": our_call(works["batch-major"], x["batch-major"], "torch"),
            "python loop": lambda inputs=inputs: gae_loop(*inputs),
            "numpy loop": lambda arrays=arrays: gae_numpy(*arrays),
            "torchrl": torchrl(works["batch-major"], x["batch-major"]),
        }
        found = cpu_ms({who: call for who, call in calls.items() if call is not None})
        rows += [{"who": who, "op": "gae", "rows": rows_count, "steps": steps, "ms": ms} for who, ms in found.items()]
        lines.append(f"gae {rows_count}x{steps}: " + ", ".join(f"{who} {ms:.2f} ms" for who, ms in found.items()))
        good = good and found[OURS] <= (1 + TIE) * found.get("torchrl", math.inf)
        if (rows_count, steps) == (4096, 128):
            ratio = found["python loop"] / found[OURS]
            lines.append(judge(f"{ratio:.1f}x faster than the Python loop at 4096x128 (target 2)", ratio >= 2))
    if any(row["who"] == "torchrl" for row in rows):
        lines.append(judge("never slower than TorchRL", good))
    return rows, lines


def save(arguments: argparse.Namespace, machine: dict[str, Any], rows: list[Row]) -> None:
    if arguments.json:
        write_json(arguments.json, {"machine": machine, "rows": rows, "provenance": provenance(0)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="compare the torch backend on one core")
    parser.add_argument("--quick", action="store_true", help="four shapes, short measurements")
    parser.add_argument("--ops", nargs="*", default=list(OPS), choices=OPS)
    parser.add_argument("--shapes", nargs="*", default=[], help="rows and steps, such as 4096x128")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--budget", type=float, default=230, help="seconds after which no new case starts")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.cpu:
        rows, lines = run_cpu(arguments)
        machine: dict[str, Any] = {"threads": 1}
    else:
        machine, rows = run_gpu(arguments)
        lines = [*table(machine, rows), *verdicts(machine, rows)]
    save(arguments, machine, rows)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
