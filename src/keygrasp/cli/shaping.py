"""``keygrasp shaping``: the exact certificate, and learning speed with different potentials."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from keygrasp.cli import console, steps
from keygrasp.errors import InputError
from keygrasp.files import ensure_writable, write_json, write_text
from keygrasp.provenance import provenance

if TYPE_CHECKING:
    from keygrasp.shaping.campaign import Tally
    from keygrasp.shaping.learning import LearningCurve


#: Columns of the comparison: heading, figure, digits.
_SHOWN = {
    "first success": ("first_success", 0),
    "95% of V*": ("to_95_percent", 0),
    "regret": ("regret", 0),
    "final": ("final_success", 3),
    "greedy/V*": ("final_worth", 3),
    "to base": ("episodes_to_base_over_base", 2),
}


@dataclass(frozen=True)
class Certify:
    """Prove in exact arithmetic that shaping keeps all optimal policies, and show how common mistakes lose them.

    Random episodic MDPs with ties, the symbolic grasp MDP, and four potentials: accurate, noisy, constant, and
    adversarial at 20 times the largest reward. Ends with status 1 if the correct shaping loses a policy anywhere.
    """

    mdps: int = 400
    """Random MDPs."""
    seed: int = 0
    """Seed of the first one."""
    workers: Annotated[int, tyro.conf.arg(help_behavior_hint="")] = 0
    """Worker processes; 0 means one a core."""
    examples: bool = False
    """Also print a counterexample of each mistake."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""


@dataclass(frozen=True)
class Compare:
    """Compare how fast a learner gets on with different potentials."""

    on: Literal["grasp-mdp", "refiner"] = "grasp-mdp"
    """What is learned: the symbolic grasp MDP (tabular), or refining grasps of simulated objects (Q-network)."""
    potentials: console.Names = ("none", "rules", "learned", "adversarial")
    """Potentials: none, rules, learned, adversarial, llm. 'none' is what the others are compared with. With '+raised'
    behind it, a constant lifts the potential above all returns, so that the learner starts optimistically; with
    '+guard', a second learner takes the same transitions without shaping, and acts where it does better."""
    episodes: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Episodes of each seed, instead of the usual number."""
    seeds: int = 10
    """Learners of each potential."""
    everywhere: bool = False
    """Grasp MDP: random actions from random states, so that what is learned doesn't depend on how it is explored."""
    seed: int = 0
    """Seed of all draws."""
    workers: Annotated[int, tyro.conf.arg(help_behavior_hint="")] = 0
    """Worker processes of the refiner's learners; 0 means one a core."""
    scale: float = 1.0
    """Refiner: factor of the shaping term."""
    n_step: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Refiner: length of the returns in moves, instead of the usual one, which spans an episode."""
    outcome: Literal["model", "physics"] = "model"
    """Refiner: who decides about executions in training, the shipped network as a model of physics, or physics."""
    runs: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/shaping")
    """Refiner: folder for the report of each run; the same command goes on from there."""
    plot: console.OptionalPath = None
    """Also draw the learning curves into this SVG file."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""


@dataclass(frozen=True)
class Train:
    """Train the refiner's network online with a shaped reward, and log each term of the reward."""

    shaping: Literal["none", "rules", "llm", "learned"] = "none"
    """Potential of the shaping term."""
    scale: float = 1.0
    """Factor of the shaping term."""
    guard: bool = False
    """Let a second network learn without shaping, and act where it does better."""
    outcome: Literal["model", "physics"] = "model"
    """Who decides about executions: the shipped network as a model of physics, or physics."""
    episodes: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Episodes, instead of the usual number."""
    seed: int = 0
    """Seed of all draws."""
    json: console.OptionalPath = None
    """Also write settings, terms and each episode's outcome to this file."""


Command = (
    Annotated[Certify, tyro.conf.subcommand("certify")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Train, tyro.conf.subcommand("train")]
)


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options: Certify | Compare | Train = console.parse(Command, argv, command="shaping")  # type: ignore[arg-type]
    if options.json is not None:
        ensure_writable(options.json)
    if isinstance(options, Certify):
        return _certify(options)
    return _compare(options) if isinstance(options, Compare) else _train(options)


def _certify(options: Certify) -> int:
    from keygrasp.shaping.campaign import certify_grasp, certify_rules, run_campaign

    begin = time.perf_counter()
    with steps.StepBar("MDPs") as bar:
        tally = run_campaign(
            options.mdps,
            seed=options.seed,
            workers=options.workers,
            on_progress=lambda done, total: bar.update(done, total, {}),
        )
        grasp = certify_grasp()
    rules = certify_rules()
    seconds = time.perf_counter() - begin
    out = console.output()
    out.print(_certificate_table(tally, f"{tally.mdps} random MDPs, {tally.with_ties} with ties: all policies kept"))
    out.print(_certificate_table(grasp, "symbolic grasp MDP: all policies kept"))
    out.print(f"rule-based potential on the grasp MDP: {rules.text()}", soft_wrap=True)
    if options.examples:
        for way, text in tally.examples.items():
            out.print(f"\n{way}, {text}", soft_wrap=True)
    holds = tally.holds and grasp.holds and rules.preserved
    if options.json is not None:
        figures = {
            "random_mdps": _tally_json(tally),
            "grasp_mdp": _tally_json(grasp),
            "rules_on_grasp_mdp": {"preserved": rules.preserved, "states": rules.states, "ties": rules.ties},
            "counterexamples": tally.examples,
            "holds": holds,
            "seconds": round(seconds, 1),
            "workers": options.workers,
        }
        write_json(options.json, {**figures, "provenance": provenance(options.seed)})
    out.print("certified" if holds else "NOT certified: the correct shaping lost a policy", style="bold")
    return 0 if holds else 1


def _certificate_table(tally: Tally, title: str) -> Any:
    potentials = list(tally.shifted)
    table = console.table("shaping", *potentials, title=title)
    for way, counts in tally.preserved.items():
        table.add_row(way, *(f"{counts[name]}/{tally.mdps}" for name in potentials))
    table.add_row("correct: V* moves by −Φ exactly", *(f"{tally.shifted[name]}/{tally.mdps}" for name in potentials))
    return table


def _tally_json(tally: Tally) -> dict[str, Any]:
    return {
        "mdps": tally.mdps,
        "with_ties": tally.with_ties,
        "preserved": tally.preserved,
        "values_shifted_exactly": tally.shifted,
    }


def _compare(options: Compare) -> int:
    if options.plot is not None:
        ensure_writable(options.plot)
    if "none" not in options.potentials:
        raise InputError("--potentials has no 'none'", "It is what the others are compared with")
    held: dict[str, float] = {}
    if options.on == "grasp-mdp":
        curves = _learn_table(options)
    else:
        curves, held = _learn_refiner(options)
    figures = _figures(curves)
    for name, share in held.items():
        figures[name]["final_success_in_physics"] = share
    table = console.table("potential", *_SHOWN, title="median episodes; means")
    for name, row in figures.items():
        unknown = () if row["final_worth"] is not None else ("to_95_percent", "final_worth")  # V* isn't known
        shown = ("" if key in unknown else _number(row[key], digits) for key, digits in _SHOWN.values())
        table.add_row(name, *shown)
    out = console.output()
    out.print(table)
    out.print("to base: episodes to 95% of the final success without shaping, over those needed without it")
    if held:
        shares = ", ".join(f"{name} {share:.2f}" for name, share in held.items())
        out.print(f"executions of the final policies that held in physics: {shares}", soft_wrap=True)
    if options.plot is not None:
        write_text(options.plot, _chart(options, curves))
    if options.json is not None:
        data = {
            "on": options.on,
            "everywhere": options.everywhere,
            "episodes": curves[0].success.shape[1],
            "seeds": options.seeds,
            "potentials": figures,
        }
        write_json(options.json, {**data, "provenance": provenance(options.seed)})
    return 0


def _train(options: Train) -> int:
    from keygrasp.refine.online import OnlineConfig, run_online

    config = OnlineConfig(
        shaping=options.shaping,
        scale=options.scale,
        guard=options.guard,
        outcome=options.outcome,
        seed=options.seed,
    )
    if options.episodes is not None:
        config = dataclasses.replace(config, episodes=options.episodes)
    with steps.StepBar("episodes") as bar:
        report = run_online(config, lambda done: bar.update(done, config.episodes, {}))
    tail = max(1, config.episodes // 10)
    out = console.output()
    out.print(f"success {report.success.mean():.3f}, in the last {tail} episodes {report.success[-tail:].mean():.3f}")
    for name, value in report.reward_terms.items():
        out.print(f"reward an episode, {name}: {value:+.4f}")
    if options.json is not None:
        figures = {
            "config": dataclasses.asdict(config),
            "reward_terms": report.reward_terms,
            "success": report.success.astype(int).tolist(),
            "moves": report.length.astype(int).tolist(),
        }
        write_json(options.json, {**figures, "provenance": provenance(options.seed)})
    return 0


def _learn_table(options: Compare) -> list[LearningCurve]:
    from keygrasp.shaping.learning import LearningConfig, learn

    config = LearningConfig(seeds=options.seeds, seed=options.seed)
    if options.episodes is not None:
        config = dataclasses.replace(config, episodes=options.episodes)
    if options.everywhere:
        config = dataclasses.replace(config, exploration=1.0, exploring_starts=1.0)
    total = config.episodes * len(options.potentials)
    curves = []
    with steps.StepBar("episodes") as bar:
        for number, name in enumerate(dict.fromkeys(options.potentials)):
            before = number * config.episodes
            curves.append(learn(name, config, lambda done, before=before: bar.update(before + done, total, {})))  # type: ignore[misc]
    return curves


def _learn_refiner(options: Compare) -> tuple[list[LearningCurve], dict[str, float]]:
    from keygrasp.refine.comparison import compare_potentials
    from keygrasp.refine.online import OnlineConfig

    given = {"episodes": options.episodes, "n_step": options.n_step}
    config = OnlineConfig(
        seed=options.seed,
        scale=options.scale,
        outcome=options.outcome,
        **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
    )
    names = tuple(dict.fromkeys(options.potentials))
    with steps.StepBar("runs") as bar:
        return compare_potentials(
            names,
            config,
            options.seeds,
            options.runs,
            workers=options.workers,
            on_run=lambda done, total: bar.update(done, total, {}),
        )


def _figures(curves: list[LearningCurve]) -> dict[str, dict[str, Any]]:
    import numpy as np

    from keygrasp.shaping.learning import speed_up

    base = next(curve for curve in curves if curve.potential == "none")

    def finite(value: float) -> float | None:
        return float(value) if np.isfinite(value) else None

    return {
        curve.potential: {
            "first_success": finite(np.median(curve.first_success)),
            "to_95_percent": finite(np.median(curve.to_enough)),
            "regret": finite(curve.regret.mean()),
            "final_success": curve.final_success,
            "final_worth": curve.final_worth,
            "final_success_by_seed": [float(v) for v in curve.final_success_by_seed],
            "episodes_to_base_over_base": finite(speed_up(base, curve)),
            "reward_terms": curve.reward_terms,
        }
        for curve in curves
    }


def _chart(options: Compare, curves: list[LearningCurve]) -> str:
    import numpy as np

    from keygrasp.shaping.charts import Curve, learning_chart
    from keygrasp.shaping.learning import moving_mean, smoothing_window

    window = smoothing_window(curves[0].success.shape[1])
    drawn = [
        Curve(
            curve.potential,
            np.arange(1, curve.success.shape[1] + 1, dtype=float),
            np.stack([moving_mean(run.astype(float), window) for run in curve.success]),
        )
        for curve in curves
    ]
    what = "symbolic grasp MDP" if options.on == "grasp-mdp" else "grasp refiner"
    return learning_chart(f"Success while learning, {what}", "episodes", f"success, last {window} episodes", drawn)


def _number(value: float | None, digits: int) -> str:
    return "never" if value is None else f"{value:.{digits}f}"
