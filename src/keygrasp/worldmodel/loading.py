"""Reading a model from disk, whichever it is."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

from keygrasp.worldmodel.ensemble import Ensemble
from keygrasp.worldmodel.model import WorldModel
from keygrasp.worldmodel.recurrent_training import FORMAT, load_images_model


def load_model(path: Path) -> WorldModel:
    """Read an ensemble over symbols, or a recurrent image model that is given the symbols.

    Raises:
        InputError: If the file is missing, damaged, or of neither format.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
    except (OSError, SafetensorError):
        metadata = {}  # the reader below says what is wrong
    return load_images_model(path) if metadata.get("format") == FORMAT else Ensemble.load(path)
