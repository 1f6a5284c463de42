"""A Delta X without the robot: its firmware's behaviour behind a pseudo-terminal, with faults on request."""

from keygrasp.robots.delta_x.emulator.faults import Fault, FaultKind, parse_fault
from keygrasp.robots.delta_x.emulator.firmware import Firmware
from keygrasp.robots.delta_x.emulator.server import Emulator

__all__ = ["Emulator", "Fault", "FaultKind", "Firmware", "parse_fault"]
