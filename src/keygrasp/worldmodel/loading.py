"""Reading a model from disk, whichever it is."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

from keygrasp.tensorfiles import shipped_model
from keygrasp.worldmodel.ensemble import Ensemble
from keygrasp.worldmodel.model import WorldModel
from keygrasp.worldmodel.recurrent_training import FORMAT, load_images_model

#: The ensemble that ships with the project.
DEFAULT_MODEL = "worldmodel.safetensors"


def default_model() -> Path:
    """Path of the model that ships with the project.

    Raises:
        InputError: If it is not there.
    """
    remedy = "Make them with 'keygrasp worldmodel collect' and 'keygrasp worldmodel train', and name the file"
    return shipped_model(DEFAULT_MODEL, remedy)


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
