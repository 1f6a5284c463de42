"""Entry point of the ``keygrasp`` command: finds the sub-command, and turns every way to end into an exit status."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import keygrasp
from keygrasp.errors import EXIT_INTERRUPTED, InputError, KeygraspError, suggestion

#: Group of entry points through which other packages add commands: a name and a function(argv) -> exit status.
ENTRY_POINTS = "keygrasp.commands"
#: Exit status when the reader of the output has gone (128 + SIGPIPE), by the shell's convention.
EXIT_BROKEN_PIPE = 141

Run = Callable[[list[str]], int]


@dataclass(frozen=True)
class Command:
    """A sub-command.

    Attributes:
        target: ``"module:function"``; the function takes the arguments after the command's name.
        summary: One line for the overview.
    """

    target: str
    summary: str

    def load(self) -> Run:
        """Import the function."""
        module, _, name = self.target.partition(":")
        run: Run = getattr(importlib.import_module(module), name)
        return run


COMMANDS = {
    "pick": Command("keygrasp.cli.pick:run", "pick an object of yours (OBJ, STL, PLY) in simulation, drawn"),
    "trials": Command("keygrasp.cli.trials:run", "try planners on many objects in simulation, with a report"),
    "evaluate": Command("keygrasp.cli.evaluate:run", "make the whole table of the protocol with one command"),
    "sim2real": Command("keygrasp.cli.sim2real:run", "what may differ between simulation and a real Delta, tried"),
    "report": Command("keygrasp.cli.report:run", "write the report of earlier trials again"),
    "objects": Command("keygrasp.cli.objects:run", "list, show and check objects and databases"),
    "collect": Command("keygrasp.cli.collect:run", "collect physics outcomes to train on"),
    "contact": Command("keygrasp.cli.contact:run", "fit the model that labels grasps without physics"),
    "outcomes": Command("keygrasp.cli.outcomes:run", "fit the model that tells from an image how grasps would end"),
    "train": Command("keygrasp.cli.train:run", "train the refiner"),
    "ablate": Command("keygrasp.cli.ablate:run", "what each part of the refiner is worth"),
    "delta": Command("keygrasp.cli.delta:run", "emulate a Delta X on a serial port, calibrate a real one, compare"),
    "shaping": Command("keygrasp.cli.shaping:run", "certify shaped rewards, and compare potentials"),
    "curriculum": Command("keygrasp.cli.curriculum:run", "simulate difficulty estimates, measure their cost"),
    "skills": Command("keygrasp.cli.skills:run", "watch a small robot develop its skills, size its firmware"),
    "worldmodel": Command("keygrasp.cli.worldmodel:run", "model what actions do, plan tasks whose reward is code"),
    "calibrate": Command("keygrasp.cli.calibrate:run", "make the refiner's success probability honest"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``keygrasp`` and return its exit status; never raises but for interpreter exits."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
    except KeygraspError as error:
        return _fail(error.problem, error.remedy, error.exit_code)
    except KeyboardInterrupt:
        return _fail("stopped; what was finished is kept", "", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Python flushes the standard streams at exit, which would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception as error:  # the outermost frame: no traceback reaches a user
        from keygrasp.cli.faults import describe

        return _fail(*describe(error, debug=bool(os.environ.get("KEYGRASP_DEBUG"))))
    return status


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return 0 if arguments else 2
    name, *rest = arguments
    if name in ("-V", "--version"):
        sys.stdout.write(f"keygrasp {keygrasp.__version__}\n")
        return 0
    command = COMMANDS.get(name)
    if command is not None:
        return command.load()(rest)
    added = _added()
    if name in added:
        return added[name].load()(rest)
    raise InputError(
        f"unknown command '{name}'", suggestion(name, [*COMMANDS, *added], "Run 'keygrasp --help' for the list")
    )


def _added() -> dict[str, Command]:
    """Commands that other installed packages declare; one of the library's own names can't be replaced."""
    from importlib.metadata import entry_points

    return {
        point.name: Command(point.value, f"from the package '{point.dist.name}'" if point.dist else "")
        for point in entry_points(group=ENTRY_POINTS)
        if point.name not in COMMANDS
    }


def overview() -> str:
    """The text of ``keygrasp --help``."""
    commands = {**COMMANDS, **_added()}
    width = max(len(name) for name in commands)
    lines = [f"  {name:<{width}}  {command.summary}".rstrip() for name, command in commands.items()]
    return "\n".join(
        [
            "usage: keygrasp <command> [options]",
            "",
            "Geometric grasp planning, refined by a small Q-network on keypoints.",
            "",
            "commands:",
            *lines,
            "",
            "  --version  print the version",
            "  --help     print this; 'keygrasp <command> --help' for a command's options",
            "",
        ]
    )


def _fail(problem: str, remedy: str, status: int) -> int:
    lines = [f"keygrasp: {problem}", *([f"  {remedy}"] if remedy else [])]
    try:
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()
    except OSError:
        return status  # nobody reads the message any more
    return status


if __name__ == "__main__":
    sys.exit(main())
