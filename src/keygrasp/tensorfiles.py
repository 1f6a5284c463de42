"""Tensors in safetensors files: written whole or not at all, read up to a size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.files import atomic_path


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors with metadata."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(plain, str(temporary), dict(metadata))


def write_weights(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Like :func:`write_tensors`, for what was trained: nothing is written where it diverged.

    Raises:
        InputError: If a tensor holds NaN or infinity.
    """
    _check_finite(path, tensors, "Train with a smaller learning_rate")
    write_tensors(path, tensors, metadata)


def read_tensors(path: Path, max_bytes: int, remedy: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file, on the CPU.

    Raises:
        InputError: If it is larger than ``max_bytes``; says ``remedy``.
        OSError: If it can't be read.
        SafetensorError: If it is no safetensors file.
    """
    if path.stat().st_size > max_bytes:
        raise InputError(f"{path} is larger than {max_bytes // 2**20} MiB", remedy)
    with safe_open(str(path), framework="pt") as file:
        names = file.keys()
        return {name: file.get_tensor(name) for name in names}, file.metadata() or {}


def read_weights(path: Path, max_bytes: int, remedy: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Like :func:`read_tensors`; tensors that hold NaN or infinity are refused too."""
    tensors, metadata = read_tensors(path, max_bytes, remedy)
    _check_finite(path, tensors, remedy)
    return tensors, metadata


def _check_finite(path: Path, tensors: Mapping[str, Tensor], remedy: str) -> None:
    broken = [name for name, value in tensors.items() if not value.isfinite().all()]
    if broken:
        raise InputError(f"the weights of {path} are not finite ({broken[0]}): training diverged", remedy)


def shipped_model(name: str, remedy: str) -> Path:
    """Path of a file of weights that comes with the project.

    Raises:
        InputError: If it is not there (a partial checkout); says ``remedy``.
    """
    path = Path(__file__).parent / "models" / name
    if path.is_file():
        return path
    raise InputError(f"the weights {name} are not installed", remedy)
