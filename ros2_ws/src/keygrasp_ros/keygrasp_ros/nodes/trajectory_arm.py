"""Node: ``execute_grasp`` on a UR5 that its own driver moves.

The arm is moved through ``control_msgs/action/FollowJointTrajectory`` and the gripper through
``control_msgs/action/GripperCommand``; inverse kinematics are inside. Joint states come from the driver, the arm's
place in the workspace from TF.
"""

from __future__ import annotations

import math
from typing import Any

from keygrasp.errors import InputError, KeygraspError
from keygrasp.robots.ur5_paths import ARM_JOINTS, HOME, UR5Paths
from keygrasp.scene import GripperSpec, TrialOutcome
from keygrasp_ros.arm_execution import Arm, ArmExecution, ArmSetup
from keygrasp_ros.controllers import ArmController, GripperController
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.frames import listen
from keygrasp_ros.grasp_server import GraspJob, GraspServer
from keygrasp_ros.joint_feed import JointFeed
from keygrasp_ros.lifecycle import OwningNode
from keygrasp_ros.parameters import AUTOSTART, GRIPPER, WORKSPACE_FRAME, Parameter, fill, reader
from keygrasp_ros.running import node_main

#: Seconds between the points of a trajectory.
_TIME_STEP = 0.02
#: Seconds for a goal that is under way to end when the node closes.
_END_SECONDS = 5.0

PARAMETERS = (
    WORKSPACE_FRAME,
    Parameter("base_frame", "base_link", "Frame of the arm's base in its URDF; TF must connect it with the workspace."),
    Parameter("arm_action", "scaled_joint_trajectory_controller/follow_joint_trajectory", "Action that moves the arm."),
    Parameter("gripper_action", "gripper_controller/gripper_cmd", "Action that moves the gripper."),
    Parameter("joint_prefix", "", "What stands before the UR5's joint names in joint_states and trajectories."),
    Parameter("tool_length", 0.2, "Metres from tool0 to the fingertips.", 0.0, 1.0),
    Parameter("tool_yaw", 0.0, "Radians about tool0's z from its x to the closing axis.", -math.pi, math.pi),
    Parameter("gripper_open", 0.085, "What the gripper's action takes for the largest opening."),
    Parameter("gripper_closed", 0.0, "What the gripper's action takes for closed pads."),
    Parameter("empty_opening", 0.002, "Metres between the closed pads from which on they hold something.", 0.0, 0.1),
    Parameter("gripper_timeout", 5.0, "Seconds for a movement of the gripper.", 0.1, 60.0),
    Parameter("motion_margin", 3.0, "Seconds by which a motion of the arm may take longer than planned.", 0.1, 60.0),
    Parameter("state_timeout", 0.5, "Seconds after which joint states are stale: the arm is stopped.", 0.05, 10.0),
    Parameter("speed", 0.5, "Share of the speeds of trials.", 0.01, 1.0),
    Parameter("descent", 0.15, "Metres above the grasp from which the tool comes straight down.", 0.01, 0.5),
    Parameter("shake", True, "Whether the object is shaken after lifting, as in trials, where it is not put down."),
    Parameter("home", tuple(HOME.tolist()), "Joint angles in radians where the arm waits, out of the camera's view."),
    Parameter("go_home", True, "Whether it returns there after a goal, where it is well and holds nothing."),
    AUTOSTART,
    *GRIPPER,
)


class TrajectoryArm(OwningNode):
    """Executes grasps on an arm; one at a time."""

    def __init__(self, **options: Any) -> None:
        super().__init__("trajectory_arm", **options)
        self._read = reader(self, PARAMETERS)
        self._workspace: str = self._read("workspace_frame")
        self._spec = fill(self._read, "gripper", GripperSpec)
        self._parts: tuple[ArmController, GripperController, JointFeed] | None = None
        self._frames = listen(self)
        self._monitor = Monitor(self, self._missing)
        self._grasps = GraspServer(self, self._monitor, self._workspace, self._grasp)
        if self._read("autostart"):
            self.start("the arm's node")

    def _set_up(self) -> None:
        """Connect with the arm's driver; it may still be away."""
        read = self._read
        joints = [read("joint_prefix") + name for name in ARM_JOINTS]
        positions = (read("gripper_open"), read("gripper_closed"))
        self._parts = (
            ArmController(self, read("arm_action"), joints, read("motion_margin")),
            GripperController(self, read("gripper_action"), self._spec, positions, read("gripper_timeout")),
            JointFeed(self, joints, read("state_timeout")),
        )

    def _begin(self) -> None:
        self._grasps.begin()

    def _come_to_rest(self) -> None:
        """Stop the arm and take no goals."""
        self._grasps.end()

    def _put_away(self) -> None:
        """Leave the driver."""
        if self._grasps.end(_END_SECONDS):
            parts, self._parts = self._parts, None
            for part in parts or ():
                part.close()

    def _missing(self) -> list[str]:
        if self._parts is None:
            return ["its configuration"]
        arm, gripper, joints = self._parts
        missing = [f"'{part.name}'" for part in (arm, gripper) if not part.is_here()]
        for check in (joints.angles, self._base):
            try:
                check()
            except KeygraspError as error:
                missing.append(error.problem)
        return missing

    def _base(self, seconds: float = 0.0) -> Any:
        return self._frames.wait_for_pose(self._read("base_frame"), self._workspace, seconds)

    def _arm(self) -> Arm:
        """The arm as it stands now.

        Raises:
            InputError: If the node is not configured, or the arm's place is unknown.
            RobotError: If its joint states can't be used.
        """
        if self._parts is None:
            raise InputError("the arm's node is not configured")
        controller, gripper, joints = self._parts
        read = self._read
        joints.wait(read("state_timeout"))
        paths = UR5Paths(self._base(read("state_timeout")), read("tool_length"), _TIME_STEP, tool_yaw=read("tool_yaw"))
        home = read("home") if read("go_home") else ()
        setup = ArmSetup(read("speed"), read("descent"), read("empty_opening"), read("shake"), home)
        return Arm(controller, gripper, joints, paths, self._spec, setup)

    def _grasp(self, job: GraspJob) -> TrialOutcome:
        arm = self._arm()
        execution = ArmExecution(arm, job.cancelled, lambda stage: job.tell(stage, arm.gripper.opening))
        with self._monitor.timed():
            return execution.run(job.grasp, job.place_at)


def main() -> int:
    """Run the node."""
    return node_main(TrajectoryArm)
