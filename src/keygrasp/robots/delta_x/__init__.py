"""The Delta X: kinematics, a driver for the real robot, and an emulator for everybody else.

The kinematics need nothing but numpy; talking to a robot needs the extra ``hardware``.
"""

from keygrasp.robots.delta_x.calibration import Calibration, calibrate, load_calibration, save_calibration
from keygrasp.robots.delta_x.config import DeltaConfig, MotionConfig, ToolConfig, load_delta_config
from keygrasp.robots.delta_x.driver import DeltaX
from keygrasp.robots.delta_x.exits import running
from keygrasp.robots.delta_x.failures import (
    CommandRejectedError,
    HaltedError,
    NoAnswerError,
    PositionError,
    RestartedError,
)
from keygrasp.robots.delta_x.kinematics import forward, inverse, jacobian, singularity
from keygrasp.robots.delta_x.model import MODELS, DeltaGeometry, DeltaModel, Dialect, load_model
from keygrasp.robots.delta_x.robot import DeltaRobot, table_below
from keygrasp.robots.delta_x.state import State
from keygrasp.robots.delta_x.workspace import Limit, PathFault, check_path, reachable
from keygrasp.robots.serial_port import ConnectionLostError, PortBusyError

__all__ = [
    "MODELS",
    "Calibration",
    "CommandRejectedError",
    "ConnectionLostError",
    "DeltaConfig",
    "DeltaGeometry",
    "DeltaModel",
    "DeltaRobot",
    "DeltaX",
    "Dialect",
    "HaltedError",
    "Limit",
    "MotionConfig",
    "NoAnswerError",
    "PathFault",
    "PortBusyError",
    "PositionError",
    "RestartedError",
    "State",
    "ToolConfig",
    "calibrate",
    "check_path",
    "forward",
    "inverse",
    "jacobian",
    "load_calibration",
    "load_delta_config",
    "load_model",
    "reachable",
    "running",
    "save_calibration",
    "singularity",
    "table_below",
]
