"""An emulated Delta X and the set-up that drives it, as the tests of several rooms use them."""

from keygrasp.robots.delta_x import DeltaConfig, MotionConfig, ToolConfig
from keygrasp.robots.delta_x.emulator import Emulator, parse_fault
from keygrasp.robots.delta_x.model import MODELS

SCALE = 50.0


def emulator(*faults, model="X1", scale=SCALE, **changes):
    chosen = MODELS[model] if isinstance(model, str) else model
    return Emulator(chosen, scale=scale, faults=tuple(parse_fault(text) for text in faults), **changes)


def config(port, *, motion=None, tool=None, **changes):
    values = {
        "boot_seconds": 0.05,
        "handshake_seconds": 5.0,
        "margin_seconds": 3.0,
        "reconnect_seconds": 10.0,
        "guardian": False,
        **changes,
    }
    return DeltaConfig(port=str(port), motion=MotionConfig(**(motion or {})), tool=ToolConfig(**(tool or {})), **values)
