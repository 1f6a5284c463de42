"""``keygrasp skills``: development live in the terminal, of a millirobot and of a gripper; what the firmware takes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from keygrasp.cli import console
from keygrasp.errors import InputError
from keygrasp.files import ensure_writable, write_json, write_text
from keygrasp.provenance import provenance

if TYPE_CHECKING:
    from keygrasp.skills.core import Agent, Decision
    from keygrasp.skills.development import Run, Step
    from keygrasp.skills.faculty import Choice
    from keygrasp.skills.millirobot import Millirobot

#: Runs that are listed below the table of skills.
_LISTED = 8
#: Runs of each pattern that are measured afterwards.
_DRAWN = 5
_BAR = 20
_CHANGES = {
    "load": "380 g are put on the robot",
    "left": "the left motor loses 30% of its gain",
    "right": "the right motor loses 30% of its gain",
}


@dataclass(frozen=True)
class Develop:
    """Watch a simulated robot develop its skills: which one it runs, why it chose it, and how well it went.

    Afterwards each pattern is driven five times with what was learned, and measured on the true path. Ctrl-C ends the
    development early, and what was learned so far is measured and written.
    """

    minutes: float = 15.0
    """Simulated minutes."""
    seed: int = 0
    """Seed of the robot's body, its noise and the learner."""
    strategy: Literal["motivated", "random", "fixed", "progress"] = "motivated"
    """How the next skill is chosen."""
    learner: Literal["regression", "annealing"] = "regression"
    """How skills are learned."""
    change: Literal["none", "load", "left", "right"] = "none"
    """Change the body half-way: 380 g of load, or 30% less gain of a motor."""
    pace: float = 0.0
    """Simulated seconds a second to watch at, 0 for as fast as it goes."""
    patterns: console.OptionalPath = None
    """Draw the learned patterns into this SVG file."""
    graph: console.OptionalPath = None
    """Draw the graph of skills into this SVG file."""
    json: console.OptionalPath = None
    """Write the figures into this file."""


@dataclass(frozen=True)
class Footprint:
    """Build the RP2040 image and print its RAM by part, its flash and its worst-case stack."""

    decisions: int = 0
    """Also run the image in the emulator until it has made so many decisions: cycles a decision, speed, stack used."""
    out: console.OptionalPath = None
    """Also copy the file for a Pico's USB drive (UF2) there."""
    json: console.OptionalPath = None
    """Also write the figures into this file."""


@dataclass(frozen=True)
class Practise:
    """Let a simulated gripper develop pushes on cartons: which skill, why, and how well each run went.

    The file of skills is for the pick server's parameter pregrasp.skills.
    """

    runs: int = 50
    """Runs of skills."""
    seed: int = 0
    """Seed of the cartons and of what is asked."""
    robot: Literal["gripper", "ur5"] = "gripper"
    """Who pushes: a gripper that floats, or the arm."""
    skills: console.OptionalPath = None
    """Go on with the skills in this file."""
    out: console.OptionalPath = None
    """Write what was learned into this file."""


Command = (
    Annotated[Develop, tyro.conf.subcommand("develop")]
    | Annotated[Practise, tyro.conf.subcommand("practise")]
    | Annotated[Footprint, tyro.conf.subcommand("footprint")]
)


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options: Develop | Practise | Footprint = console.parse(Command, argv, command="skills")  # type: ignore[arg-type]
    if isinstance(options, Develop):
        return _develop(options)
    return _practise(options) if isinstance(options, Practise) else _footprint(options)


def _develop(options: Develop) -> int:
    from keygrasp.skills.core import Agent
    from keygrasp.skills.millirobot import Millirobot

    if not 0 < options.minutes <= 600:
        raise InputError(f"--minutes {options.minutes:g} is not within 0 to 600")
    if options.seed < 0 or options.seed >= 2**32 - 1 or options.pace < 0:
        raise InputError("--seed and --pace can't be negative, and the seed is below 2³²−1")
    for path in (options.patterns, options.graph, options.json):
        if path is not None:
            ensure_writable(path)
    agent = Agent(options.seed + 1, strategy=options.strategy, learner=options.learner)
    robot = Millirobot(options.seed)
    runs: list[Run] = []
    view = _View(agent, options.minutes * 60)
    try:
        with view:
            if options.change != "none":
                _live(agent, robot, options, view, runs, options.minutes * 30)
                if options.change == "load":
                    robot.load(0.38)
                else:
                    robot.weaken(("left", "right").index(options.change), 0.7)
                view.note(robot.clock, _CHANGES[options.change])
            _live(agent, robot, options, view, runs, options.minutes * 60)
    except KeyboardInterrupt:
        console.progress_output().print("stopped; measuring what was learned so far")
    return _report(options, agent, robot, runs)


def _live(agent: Agent, robot: Millirobot, options: Develop, view: _View, runs: list[Run], seconds: float) -> None:
    from keygrasp.skills.development import run_of, steps

    before = robot.clock
    for step in steps(agent, robot, seconds):
        ended = run_of(step)
        if ended is not None:
            runs.append(ended)
        view.show(step, ended)
        if options.pace:
            time.sleep((robot.clock - before) / options.pace)
            before = robot.clock


class _View:
    """The table that lives in the terminal; plain lines where nobody watches."""

    def __init__(self, agent: Agent, seconds: float) -> None:
        self._agent, self._seconds = agent, seconds
        self._console = console.progress_output()
        self._lines: list[Text] = []
        self._why = ""
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)

    def __enter__(self) -> _View:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, step: Step, ended: Run | None) -> None:
        """Show one step."""
        from keygrasp.skills.core import Event

        decision = step.decision
        if Event.LOST in decision.events:
            self._print(step.seconds, "the body has changed: every skill is to be shown anew", "yellow", notable=True)
        if ended is not None:
            learned = Event.NEWLY_LEARNED in decision.events
            shown = f"{ended.skill:13s} fitness {ended.fitness:6.3f}  {self._why}  {'learned' if learned else ''}"
            self._print(step.seconds, shown.rstrip(), "green" if learned else "", notable=learned)
        if Event.STARTED in decision.events:
            self._why = _why(decision)
        if self._console.is_terminal:
            self._live.update(self._table(step))

    def note(self, seconds: float, text: str) -> None:
        """Tell what is done to the robot."""
        self._print(seconds, text, "bold magenta", notable=True)

    def _print(self, seconds: float, text: str, style: str, *, notable: bool) -> None:
        """Add a line; where nobody watches, notable ones alone."""
        line = Text(f"{seconds:6.0f} s  {text}", style)
        self._lines = [*self._lines[-_LISTED + 1 :], line]
        if notable and not self._console.is_terminal:
            self._console.print(line, soft_wrap=True)

    def _table(self, step: Step) -> Group:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in ("", "skill", "fitness", "", "runs", ""):
            table.add_column(heading, justify="right" if heading == "runs" else "left", no_wrap=True)
        for state in self._agent.skills:
            running = state.name == step.decision.skill
            style = "bold" if running else "green" if state.learned else "" if state.tried else "dim"
            filled = round(_BAR * state.fitness)
            bar = Text("█" * filled + "░" * (_BAR - filled), style="green" if state.learned else "yellow")
            fitness = f"{state.fitness:.2f}" if state.tried else "–"
            known = "learned" if state.learned else "to be shown" if state.tried else "not tried"
            table.add_row("▶" if running else "", Text(state.name, style), fitness, bar, str(state.runs), known)
        now = step.decision.skill or "a test of the motors" if step.decision.milliseconds else "nothing"
        head = Text(f"{step.seconds:.0f} of {self._seconds:.0f} simulated seconds", "bold")
        reason = " ".join(self._why.split())
        why = Text(f"now {now}, chosen for {reason}" if step.decision.skill else f"now {now}")
        return Group(head, why, Text(), table, Text(), *self._lines)


def _report(options: Develop, agent: Agent, robot: Millirobot, runs: list[Run]) -> int:
    from keygrasp.skills.core import PATTERNS
    from keygrasp.skills.development import acquisition, draw, longest_neglect, selection_entropy
    from keygrasp.skills.pictures import graph_picture, patterns_picture

    reached, lived = acquisition(runs), robot.clock
    drawn = [one for name in PATTERNS if name in reached for one in draw(agent.memory, robot, name, _DRAWN)]
    table = console.table("skill", "learned at", "runs", "RMS error", "of size", "end off", title="what was learned")
    figures: dict[str, dict[str, float | None]] = {}
    for state in agent.skills:
        mine = [one.error for one in drawn if one.pattern == state.name]
        row = {
            "learned_at_s": reached.get(state.name),
            "runs": sum(run.skill == state.name for run in runs),
            "cross_track_mm": _mean([error.cross_track for error in mine]),
            "cross_track_share": _mean([error.cross_track_share for error in mine]),
            "closure_mm": _mean([error.closure for error in mine]),
        }
        figures[state.name] = row
        table.add_row(
            state.name,
            _shown(row["learned_at_s"], "{:.0f} s"),
            str(row["runs"]),
            _shown(row["cross_track_mm"], "{:.1f} mm"),
            _shown(row["cross_track_share"], "{:.1%}"),
            _shown(row["closure_mm"], "{:.1f} mm"),
        )
    out = console.output()
    out.print(table)
    entropy, neglect = selection_entropy(runs), longest_neglect(runs, lived)
    out.print(f"entropy of the choices {entropy:.2f} of 1; longest time that a known skill did not run {neglect:.0f} s")
    if options.patterns is not None:
        write_text(options.patterns, patterns_picture(drawn))
    if options.graph is not None:
        write_text(options.graph, graph_picture(agent.skills))
    if options.json is not None:
        data = {"skills": figures, "selection_entropy": entropy, "longest_neglect_s": neglect, "simulated_s": lived}
        write_json(options.json, {**data, "provenance": provenance(options.seed)})
    return 0


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _practise(options: Practise) -> int:
    import functools

    from keygrasp.skills.clutter import ClutterScene
    from keygrasp.skills.core import Event
    from keygrasp.skills.manipulator import ManipulatorSkills, load_skills, save_skills
    from keygrasp.skills.practice import practise

    if not 0 < options.runs <= 100_000 or not 0 <= options.seed < 2**31:
        raise InputError("--runs must be within 1 to 100000, and --seed within 0 to 2³¹−1")
    if options.out is not None:
        ensure_writable(options.out)
    skills = ManipulatorSkills() if options.skills is None else load_skills(options.skills)
    progress = console.progress_output()
    make = functools.partial(ClutterScene, robot=options.robot)
    try:
        for number, run in enumerate(practise(skills, options.runs, seed=options.seed, make=make), start=1):
            learned = Event.NEWLY_LEARNED in run.events
            line = f"{number:4d}  {run.skill:6s} fitness {run.fitness:6.3f}  {_why(run.choice)}"
            progress.print(Text(line + ("  learned" if learned else ""), "green" if learned else ""), soft_wrap=True)
    except KeyboardInterrupt:
        progress.print("stopped; what was learned so far is written")
    table = console.table("skill", "learned", "runs", "fitness", title="what was learned")
    for state in skills.faculty.states:
        table.add_row(state.name, "yes" if state.learned else "no", str(state.runs), f"{state.fitness:.2f}")
    console.output().print(table)
    if options.out is not None:
        save_skills(skills, options.out, provenance(options.seed))
    return 0


def _why(choice: Choice | Decision) -> str:
    """Why a skill was chosen."""
    return (
        f"novelty {choice.novelty:3.0f} · progress {choice.progress:3.0f} · "
        f"difficulty {choice.difficulty:3.1f} = {choice.motivation:5.0f}"
    )


def _footprint(options: Footprint) -> int:
    import shutil

    from keygrasp.skills.building import build_image
    from keygrasp.skills.footprint import PAPER_BYTES, RAM_LIMIT, measure

    if not 0 <= options.decisions <= 100_000:
        raise InputError(f"--decisions {options.decisions} is not within 0 to 100000")
    for path in (options.out, options.json):
        if path is not None:
            ensure_writable(path)
    folder = build_image()
    measured = measure(folder)
    table = console.table("part", "bytes", title="RAM of the RP2040 image")
    for name, size in measured.parts.items():
        table.add_row(name, f"{size:,}")
    table.add_row("worst-case stack, with an interrupt", f"{measured.stack:,}")
    table.add_row("RAM", f"{measured.ram:,}", style="bold")
    out = console.output()
    out.print(table)
    out.print(f"of {RAM_LIMIT:,} allowed; the paper's agent takes {PAPER_BYTES:,} without its stack")
    out.print(f"flash  {measured.flash:,} bytes; learned skills {measured.stored} in each of two further sectors")
    emulated = _emulated(folder, options.decisions) if options.decisions else {}
    if emulated:
        slowest = emulated["most_cycles"] / 125e3
        out.print(
            f"emulator  {emulated['decisions']:,.0f} decisions of {emulated['mean_cycles']:,.0f} cycles in the mean, "
            f"{emulated['most_cycles']:,.0f} at most ({slowest:.2f} ms at 125 MHz); {emulated['stack']:,.0f} bytes of "
            f"stack; {emulated['megahertz']:.0f} emulated MHz while it works",
            soft_wrap=True,
        )
    if options.out is not None:
        shutil.copy(folder / "keygrasp.uf2", options.out)
        out.print(f"written  {options.out}", markup=False, soft_wrap=True)
    if options.json is not None:
        figures = {
            "parts": measured.parts,
            "variables": measured.variables,
            "stack": measured.stack,
            "ram": measured.ram,
            "flash": measured.flash,
            "emulator": emulated,
        }
        write_json(options.json, {**figures, "provenance": provenance()})
    return 0


def _emulated(folder: Path, decisions: int) -> dict[str, float]:
    """What the image does in the emulator, closed-loop with a simulated robot."""
    from keygrasp.skills.emulator import EmulatedRobot
    from keygrasp.skills.millirobot import Millirobot

    with EmulatedRobot(Millirobot(0), folder) as robot:
        for _ in robot.decisions(1, decisions, forget=True):
            pass
        figures = robot.stop()
    mean = figures["total_cycles"] / max(figures["decisions"], 1.0)
    return {**figures, "mean_cycles": mean, "megahertz": figures["cycles"] / 1e6 / max(figures["working_s"], 1e-9)}
