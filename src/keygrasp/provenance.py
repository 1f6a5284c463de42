"""Where a figure comes from: machine, versions, command, seed and date, written beside it."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

_PACKAGES = ("keygrasp", "numpy", "scipy", "torch", "triton", "pybullet", "opencv-python-headless", "trimesh")


def provenance(seed: int | None = None) -> dict[str, Any]:
    """Describe this run: JSON-ready ``machine``, ``versions``, ``command``, ``seed`` and ``date``."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "seed": seed,
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "gpu": _gpu(),
        },
        "versions": {"python": platform.python_version(), **_versions()},
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        first, _, _ = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(line.replace("\t", "").partition(":")[::2] for line in first.splitlines())
    name = fields.get("model name", platform.machine()).strip()
    if any(character.isdigit() for character in name) or "cpu family" not in fields:
        return name
    # A virtual machine often hides the rest of the name, and processors of one name differ by a factor of 3.
    return f"{name}, family {fields['cpu family'].strip()} model {fields.get('model', '?').strip()}"


def _gpu() -> str | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name())
