"""Draw the splits from the installed embedded set: ``python -m keygrasp.objects.write_manifests``."""

from __future__ import annotations

from pathlib import Path

from keygrasp.files import write_json
from keygrasp.objects import embedded
from keygrasp.objects.splits import draw, manifest, manifest_directory


def write_manifests(directory: Path) -> None:
    """Write ``train.json``, ``validation.json`` and ``test.json``.

    Raises:
        StorageError: If they can't be written.
    """
    for name, objects in draw(embedded.names()).items():
        write_json(directory / f"{name}.json", manifest(name, objects))


if __name__ == "__main__":
    write_manifests(manifest_directory().resolve())
