"""The grasp protocol KG-1: scenes, camera noise, the frozen reference planner, controls, the oracle, statistics."""

from keygrasp.protocol.constants import KG1, PROTOCOL
from keygrasp.protocol.controls import CentroidPlanner, RandomPlanner
from keygrasp.protocol.noise import camera_noise
from keygrasp.protocol.oracle import OracleConfig, oracle
from keygrasp.protocol.reference import ReferencePlanner
from keygrasp.protocol.scenes import Perturbation, RobotName, Scene, SceneError, SceneSpec, build_scene

__all__ = [
    "KG1",
    "PROTOCOL",
    "CentroidPlanner",
    "OracleConfig",
    "Perturbation",
    "RandomPlanner",
    "ReferencePlanner",
    "RobotName",
    "Scene",
    "SceneError",
    "SceneSpec",
    "build_scene",
    "camera_noise",
    "oracle",
]
