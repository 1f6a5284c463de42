"""Parameters of the simulator's node."""

from __future__ import annotations

from typing import get_args

from keygrasp.objects import Rule, Source
from keygrasp_ros.parameters import AUTOSTART, SEED, WORKSPACE_FRAME, Parameter

CAMERA_FRAME = Parameter("camera.frame", "camera_depth_optical_frame", "Optical frame of the depth camera.")
CAMERA_RATE = Parameter("camera.rate", 5.0, "Depth images a second while the arm stands.", 0.1, 60.0)
STATE_RATE = Parameter(
    "state_rate", 20.0, "Joint states and transforms a second while it moves; one while it stands.", 1.0, 240.0
)
#: What lies on the table.
OBJECT = (
    Parameter("object", "", "Object on the table at start; empty for the first of the test split."),
    Parameter("source", "embedded", "Where the object comes from.", choices=get_args(Source)),
    Parameter("rule", "E", "How it is scaled.", choices=get_args(Rule)),
)

PARAMETERS = (
    WORKSPACE_FRAME,
    SEED,
    Parameter("robot", "ur5", "Who executes: the arm, or a gripper that floats.", choices=("ur5", "gripper")),
    *OBJECT,
    CAMERA_FRAME,
    CAMERA_RATE,
    STATE_RATE,
    Parameter("observer", True, "Whether a picture of the arm is rendered at the end of each lift."),
    Parameter(
        "full_motion", True, "Whether the arm moves from where it waits to the object, or begins above it as in trials."
    ),
    Parameter(
        "real_time_factor",
        0.0,
        "Simulated seconds a second while the arm moves; 0 for as fast as it can.",
        0.0,
        100.0,
        read_only=False,
    ),
    Parameter("publish_clock", False, "Whether simulated time is published on /clock, for nodes with use_sim_time."),
    AUTOSTART,
)
