"""``keygrasp curriculum``: how well difficulty is estimated, on samples whose difficulty is known."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro

from keygrasp.cli import console, steps
from keygrasp.errors import EXIT_INTERRUPTED, ConfigurationError, WorkerError
from keygrasp.files import ensure_writable, write_json, write_text
from keygrasp.provenance import provenance

if TYPE_CHECKING:
    from keygrasp.curriculum.scaling import Cost
    from keygrasp.curriculum.simulation import SyntheticConfig

Json = dict[str, Any]

#: Methods whose error is drawn.
_DRAWN = ("graph", "paper", "knn", "knn-tuned", "history")
#: Height of the drawn error.
_TOP = 0.4


@dataclass(frozen=True)
class Simulate:
    """Estimate the difficulty of synthetic samples while a simulated policy improves.

    All methods see the same trials of random samples, and are scored against the true success rates of all samples.
    Finished runs are kept in the journal: the same command goes on where it was stopped.
    """

    samples: int = 10_000
    """Samples."""
    steps: int = 60
    """Steps of 256 samples with 8 trials each."""
    noise: Annotated[tuple[float, ...], tyro.conf.arg(metavar="[FLOAT ...]", help_behavior_hint="")] = (0.5, 1.5)
    """Spread of a sample's logit around its cluster's; one study each."""
    seeds: int = 5
    """Runs of each."""
    methods: console.Names = ()
    """Methods to run; all where none is named."""
    seed: int = 0
    """Seed of the first run."""
    workers: Annotated[int, tyro.conf.arg(help_behavior_hint="")] = 0
    """Worker processes; 0 means one a core."""
    journal: console.OptionalPath = None
    """File that keeps finished runs, to go on after a stop."""
    plot: console.OptionalPath = None
    """Draw the error step by step, one SVG file for each noise: PATH-0.5.svg and so on."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""


@dataclass(frozen=True)
class Scale:
    """Measure what a step costs as the number of samples grows: updates, sweeps, allocations, memory."""

    samples: Annotated[tuple[int, ...], tyro.conf.arg(metavar="[INT ...]", help_behavior_hint="")] = (10_000, 30_000)
    """Sizes to measure; more than 60,000 need the extra 'graph'."""
    updates: int = 20
    """Updates of 256 tried samples at each size."""
    seed: int = 0
    """Seed of the synthetic samples."""
    search: Literal["real", "windows"] = "real"
    """How the graph is made: 'windows' looks for neighbours within windows of each cluster only, which takes seconds
    and no extra, where the search itself isn't to be measured."""
    graphs: console.OptionalPath = None
    """Folder that keeps the graphs, so that a second run needs only the time that it measures."""
    plot: console.OptionalPath = None
    """Also draw how updates grow into this SVG file."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""


Command = Annotated[Simulate, tyro.conf.subcommand("simulate")] | Annotated[Scale, tyro.conf.subcommand("scale")]


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options: Simulate | Scale = console.parse(Command, argv, command="curriculum")  # type: ignore[arg-type]
    for path in (options.json, options.plot):
        if path is not None:
            ensure_writable(path)
    return _simulate(options) if isinstance(options, Simulate) else _scale(options)


def _simulate(options: Simulate) -> int:
    from keygrasp.curriculum.simulation import METHODS, SyntheticConfig

    methods = tuple(dict.fromkeys(options.methods)) or tuple(METHODS)
    for name in methods:
        if name not in METHODS:
            raise ConfigurationError(f"unknown method '{name}'", f"Known: {', '.join(METHODS)}")
    if options.seeds < 1 or options.workers < 0 or not options.noise:
        raise ConfigurationError("curriculum: give at least 1 seed, 1 noise, and 0 or more workers")
    configs = [
        SyntheticConfig(
            samples=options.samples,
            steps=options.steps,
            noise=noise,
            seed=options.seed + number,
            scored=min(10, options.steps),
        )
        for number in range(options.seeds)  # seeds outside: what a stopped study has is whole
        for noise in options.noise
    ]
    try:
        runs = _runs(configs, methods, options)
    except KeyboardInterrupt:
        kept = (
            f"finished runs are kept in {options.journal}" if options.journal else "without --journal nothing is kept"
        )
        console.progress_output().print(f"keygrasp: stopped; {kept}", soft_wrap=True)
        return EXIT_INTERRUPTED
    return _report(options, configs, methods, runs)


def _runs(configs: list[SyntheticConfig], methods: tuple[str, ...], options: Simulate) -> list[Json]:
    """Figures of each configuration, those of the journal included."""
    from keygrasp.trials.journal import Journal

    identity = {"samples": options.samples, "steps": options.steps, "methods": list(methods)}
    with contextlib.ExitStack() as stack:
        book = stack.enter_context(Journal(options.journal, identity)) if options.journal is not None else None
        known = {(r["noise"], r["seed"]): r for r in (book.records if book is not None else [])}
        missing = [c for c in configs if (c.noise, c.seed) not in known]
        bar = stack.enter_context(steps.StepBar("runs"))
        bar.update(len(known), len(configs), {})
        for record in _in_processes(missing, methods, options.workers):
            known[record["noise"], record["seed"]] = record
            if book is not None:
                book.append([record])
            bar.update(len(known), len(configs), {})
    return [known[c.noise, c.seed] for c in configs]


def _in_processes(configs: list[SyntheticConfig], methods: tuple[str, ...], workers: int) -> Iterator[Json]:
    workers = min(workers or len(os.sched_getaffinity(0)), len(configs))
    if workers <= 1:
        yield from (_one_run(config, methods) for config in configs)
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            for done in as_completed([pool.submit(_one_run, config, methods) for config in configs]):
                yield done.result()
        except BrokenProcessPool as error:
            raise WorkerError("a worker process died", "Try again with fewer --workers") from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _one_run(config: SyntheticConfig, methods: tuple[str, ...]) -> Json:
    from keygrasp.curriculum.simulation import simulate

    found = simulate(config, methods)
    return {
        "noise": config.noise,
        "seed": config.seed,
        "final": {name: {k: _number(v) for k, v in curves.final(config).items()} for name, curves in found.items()},
        "mae": {name: [round(float(v), 5) for v in curves.figures["mae"]] for name, curves in found.items()},
        "update_cpu_s": {name: curves.seconds for name, curves in found.items()},
    }


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _report(options: Simulate, configs: list[SyntheticConfig], methods: tuple[str, ...], runs: list[Json]) -> int:
    out = console.output()
    studies = {}
    for noise in options.noise:
        part = [record for record in runs if record["noise"] == noise]
        figures = {name: _summary([record["final"][name] for record in part]) for name in methods}
        studies[f"{noise:g}"] = {
            "methods": figures,
            **_comparison(figures),
            "by_seed": {str(record["seed"]): record["final"] for record in part},
            "update_cpu_s": {name: float(np.mean([r["update_cpu_s"][name] for r in part])) for name in methods},
        }
        table = console.table("method", "MAE", "Spearman", "never seen", title=f"noise {noise:g}, {len(part)} seed(s)")
        for name, row in figures.items():
            table.add_row(name, *(_shown(row[key]) for key in ("mae", "spearman", "mae_never_seen")))
        out.print(table)
        if options.plot is not None:
            path = options.plot.with_name(f"{options.plot.stem}-{noise:g}.svg")
            write_text(path, _chart(noise, [name for name in _DRAWN if name in methods], part))
    if options.json is not None:
        settings = dataclasses.asdict(configs[0])
        del settings["noise"], settings["seed"]
        write_json(options.json, {"config": settings, "noise": studies, "provenance": provenance(options.seed)})
    return 0


def _summary(finals: list[Json]) -> Json:
    """Mean and standard deviation over seeds of each figure."""
    summary: Json = {}
    for key in finals[0]:
        values = [final[key] for final in finals if final[key] is not None]
        summary[key] = float(np.mean(values)) if values else None
        summary[f"{key}_sd"] = float(np.std(values)) if values else None
    return summary


def _comparison(figures: Json) -> Json:
    """The graph's error over that of the best baseline."""
    from keygrasp.curriculum.simulation import BASELINES

    others = {name: figures[name]["mae"] for name in BASELINES if name in figures}
    if "graph" not in figures or not others:
        return {}
    best = min(others, key=others.__getitem__)
    return {"best_baseline": best, "mae_over_best_baseline": figures["graph"]["mae"] / others[best]}


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _chart(noise: float, names: list[str], runs: list[Json]) -> str:
    from keygrasp.shaping.charts import Curve, learning_chart

    curves = [
        Curve(name, np.arange(1, len(runs[0]["mae"][name]) + 1, dtype=float), np.array([r["mae"][name] for r in runs]))
        for name in names
    ]
    return learning_chart(f"Error of the estimate, noise {noise:g}", "steps", "mean absolute error", curves, top=_TOP)


def _scale(options: Scale) -> int:
    from keygrasp.curriculum.scaling import measure

    rows = []
    out = console.output()
    with steps.StepBar("sizes") as bar:
        for number, samples in enumerate(options.samples):
            bar.update(number, len(options.samples), {})
            given = {"updates": options.updates, "seed": options.seed, "search": options.search}
            rows.append(measure(samples, graphs=options.graphs, **given))  # type: ignore[arg-type]
    table = console.table("samples", "update ms", "CPU ms", "sweep s", "allocate s", "graph s", "kept MiB", "peak MiB")
    for cost in rows:
        table.add_row(
            f"{cost.samples:,}",
            f"{1e3 * cost.median_update_s:.1f}",
            f"{1e3 * cost.median_update_cpu_s:.1f}",
            *(f"{v:.2f}" for v in (cost.sweep_s, cost.allocate_s, cost.graph_s)),
            *(f"{v:.0f}" for v in (cost.kept_mib, cost.peak_mib)),
        )
    out.print(table)
    if options.plot is not None:
        write_text(options.plot, _growth(rows))
    if options.json is not None:
        medians = ({"median_update_s": c.median_update_s, "median_update_cpu_s": c.median_update_cpu_s} for c in rows)
        figures = [{**dataclasses.asdict(cost), **both} for cost, both in zip(rows, medians, strict=True)]
        write_json(options.json, {"search": options.search, "sizes": figures, "provenance": provenance(options.seed)})
    return 0


def _growth(rows: list[Cost]) -> str:
    """Milliseconds of processor time an update over the number of samples."""
    from keygrasp.shaping.charts import Curve, learning_chart

    sizes, updates = np.log10([c.samples for c in rows]), 1e3 * np.array([c.update_cpu_s for c in rows]).T
    top = 4.0 * np.ceil(updates.mean(axis=0).max() * 1.2 / 4)
    title = "Update after 256 tried samples"
    curve = Curve("update", sizes, updates)
    return learning_chart(
        title, "samples, power of ten", "milliseconds of processor time", [curve], left=float(sizes[0]), top=top
    )
