"""What the RP2040 image takes: RAM by part, flash, and the deepest stack that its call graph allows."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from keygrasp.skills.building import BuildError, build_image, symbols

#: RAM that the project allows itself, in bytes: variables, buffers and stack.
RAM_LIMIT = 4096
#: What Kobelrausch et al. (arXiv 2608.17596) take without stack, camera and SDK.
PAPER_BYTES = 8897
#: Interrupts push eight words; only one handler runs at a time, for both have the same priority.
_EXCEPTION_BYTES = 32
#: Frames of libgcc's routines, for which the compiler gives no figures: twice the deepest that is seen in the emulator
#: (a 64-bit division, 44 bytes with all that it calls).
_LIBRARY_BYTES = 96
_LIBRARY = re.compile(r"__aeabi_|__.*di[34]|__.*si[34]|memcpy|memset")
_HANDLERS = ("kg_on_timer", "kg_on_uart")


@dataclass(frozen=True)
class Footprint:
    """Bytes of an image.

    Attributes:
        parts: RAM of variables by what they belong to.
        variables: Their sum with padding: .data and .bss.
        stack: The deepest possible stack, an interrupt on top of it included.
        flash: Code, constants, first values and boot stage.
        stored: What is kept of the learned skills, in each of two further sectors of flash.
    """

    parts: dict[str, int]
    variables: int
    stack: int
    flash: int
    stored: int

    @property
    def ram(self) -> int:
        """Variables and stack."""
        return self.variables + self.stack


def measure(folder: Path | None = None) -> Footprint:
    """Measure an image with the compiler's own tools.

    Args:
        folder: Of the image; built by default.

    Raises:
        MissingExtraError: If the ARM compiler is missing.
        BuildError: If the image doesn't build, or its call graph has no bound.
    """
    from keygrasp.skills.core import RawBlock, RawRun, Settings

    folder = folder or build_image()
    elf = folder / "keygrasp.elf"
    known = symbols(elf)
    sizes = _object_sizes(elf)
    block, run, settings = (_size(kind) for kind in (RawBlock, RawRun, Settings))
    parts = {
        "skills: models, commands, novelty, fitness": block,
        "the run that is under way": run,
        "settings and random numbers": sizes.pop("agent") - block - run,
        "link: frame that is coming in": sizes.pop("parser"),
        "link: bytes that came in": sizes.pop("ring"),
        "code that writes flash": known["kg_data_end"] - known["kg_data_begin"],
    }
    assert settings <= parts["settings and random numbers"]  # noqa: S101 - the agent holds them
    variables = known["kg_bss_end"] - known["kg_data_begin"]
    parts["flags, counters and padding"] = variables - sum(parts.values())
    return Footprint(parts, variables, stack_bound(folder), (folder / "keygrasp.bin").stat().st_size, block)


def _size(kind: type) -> int:
    import ctypes

    return ctypes.sizeof(kind)


def _object_sizes(elf: Path) -> dict[str, int]:
    """Sizes of the variables in RAM, by name."""
    command = ["arm-none-eabi-nm", "--print-size", str(elf)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    fields = (line.split() for line in listing.splitlines())
    return {f[3].split(".")[0]: int(f[1], 16) for f in fields if len(f) == 4 and f[2] in "bBdD"}


def stack_bound(folder: Path) -> int:
    """The deepest stack in bytes, from the call graphs that the compiler wrote beside each object.

    Raises:
        BuildError: If a function calls itself, or takes a varying amount of stack.
    """
    frames, calls = _call_graph(folder)
    depth: dict[str, int] = {}

    def deepest(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            raise BuildError(f"the stack has no bound: {' → '.join((*above, name))}", "Take the recursion out")
        if name not in depth:
            if name not in frames:
                depth[name] = _library_frame(name)
            else:
                below = (deepest(callee, (*above, name)) for callee in calls.get(name, ()))
                depth[name] = frames[name] + max(below, default=0)
        return depth[name]

    handlers = max(deepest(name, ()) for name in _HANDLERS)
    return deepest("kg_reset", ()) + _EXCEPTION_BYTES + handlers


def _library_frame(name: str) -> int:
    if name != "__indirect_call" and not _LIBRARY.search(name):
        raise BuildError(f"nothing is known about the stack of '{name}'", "Add it to the bound")
    return _LIBRARY_BYTES


def _call_graph(folder: Path) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Frames by function, and whom each calls. Functions of one file are named 'file:function'."""
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*.ci")):
        text = path.read_text(encoding="utf-8")
        for title, label in re.findall(r'node: \{ title: "([^"]+)" label: "([^"]+)"', text):
            size = re.search(r"\\n(\d+) bytes \((\w+)\)", label)
            if size is None:
                continue
            if size[2] != "static":
                raise BuildError(f"'{title}' takes a varying amount of stack", "Give its arrays a fixed size")
            frames[title] = int(size[1])
        for source, target in re.findall(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', text):
            calls.setdefault(source, set()).add(target)
    _resolve_pointers(frames, calls)
    return frames, calls


def _resolve_pointers(frames: dict[str, int], calls: dict[str, set[str]]) -> None:
    """Let calls through pointers reach whatever is ever called so: functions of the flash and of the serial line.

    The boot ROM's own frames are unknown; they are covered by the library's.
    """
    reachable = {name for name in frames if name.endswith((":slot_at", "flash.c:write"))} | {"kg_board_put"}
    for name, callees in calls.items():
        if "__indirect_call" in callees and "flash.c" not in name:
            callees.discard("__indirect_call")
            callees.update(reachable)
