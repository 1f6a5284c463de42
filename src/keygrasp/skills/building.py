"""Compiling the C core: for this machine when it is first needed, for the RP2040 where its compiler is installed.

What was built lies in the cache, in a folder named after the sources and the compiler, so that a change of either
builds anew and processes that run at the same time don't disturb each other.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from keygrasp.errors import KeygraspError, MissingExtraError
from keygrasp.objects.cache import cache_directory

FIRMWARE = Path(__file__).parent / "firmware"
_SOURCES = ("*.c", "*.h", "*.S", "*.ld", "Makefile")
_BUILD_SECONDS = 120.0


class BuildError(KeygraspError):
    """The C sources can't be compiled here."""

    exit_code = 7


def build_host(extra_flags: str = "") -> Path:
    """Shared library of the core for this machine, compiled where that hasn't been done.

    Args:
        extra_flags: More flags for the C compiler, such as those of a sanitizer.

    Raises:
        MissingExtraError: If there is no C compiler or no make.
        BuildError: If it doesn't compile, or the cache can't be written.
    """
    compiler = os.environ.get("CC") or "cc"
    return _build("host", compiler, "gcc", f"CC={compiler}", f"EXTRA_CFLAGS={extra_flags}") / "libkeygrasp_skills.so"


def build_image() -> Path:
    """Folder with the RP2040 image: ``keygrasp.elf``, ``.bin``, ``.map`` and the compiler's call graphs.

    Raises:
        MissingExtraError: If the ARM compiler or make is missing.
        BuildError: If it doesn't compile, or doesn't fit.
    """
    return _build("image", "arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi")


def symbols(elf: Path) -> dict[str, int]:
    """Addresses of everything that an image defines, by name."""
    listing = subprocess.run(["arm-none-eabi-nm", str(elf)], capture_output=True, text=True, check=True)  # noqa: S603, S607
    fields = (line.split() for line in listing.stdout.splitlines())
    return {name: int(address, 16) for address, kind, name in (f for f in fields if len(f) == 3) if kind != "U"}


def _build(target: str, compiler: str, package: str, *variables: str) -> Path:
    for tool, name in ((compiler.split(maxsplit=1)[0], package), ("make", "make")):
        if shutil.which(tool) is None:
            raise MissingExtraError(
                f"building the {target} of the skill learner needs '{tool}', which is not installed",
                f"Install it with: apt-get install -y {name}",
            )
    folder = cache_directory() / "firmware" / f"{target}-{_fingerprint(compiler, variables)}"
    done = folder / "done"
    if done.exists():
        return folder
    command = ["make", "--silent", "-C", str(FIRMWARE), f"BUILD={folder}", *variables, target]
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        run = subprocess.run(  # noqa: S603 - the project's own Makefile
            command, capture_output=True, text=True, env=environment, timeout=_BUILD_SECONDS, check=False
        )
        if run.returncode == 0:
            done.touch()
            return folder
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(
            f"can't build the {target} in {folder}: {error}", "Set KEYGRASP_CACHE to another folder"
        ) from error
    lines = run.stderr.strip().splitlines()
    raise BuildError(
        f"'{' '.join(command)}' failed: {lines[0] if lines else run.returncode}", "Run it to see all of it"
    )


def _fingerprint(compiler: str, variables: tuple[str, ...]) -> str:
    """Hash of the sources, the compiler's version and its options."""
    version = subprocess.run([*compiler.split(), "--version"], capture_output=True, check=False).stdout  # noqa: S603
    digest = hashlib.sha256(version)
    digest.update(repr(variables).encode())
    for path in sorted(path for pattern in _SOURCES for path in FIRMWARE.rglob(pattern)):
        digest.update(str(path.relative_to(FIRMWARE)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]
