"""The true symbols of a simulated scene, read off the physics."""

from __future__ import annotations

from keygrasp.geometry.poses import transform_points, wrap_half_turn
from keygrasp.geometry.rectangles import smallest_rectangle
from keygrasp.scene.predicates import lifted
from keygrasp.scene.symbols import COLOURS, SHAPES, STABLE_STEPS, SymbolicState
from keygrasp.scene.tasks import Task
from keygrasp.sim.stages import ToolDriver
from keygrasp.sim.world import ObjectHandle


class SymbolObserver:
    """Reads the symbols of one object and one robot; :meth:`observe` is called once a step of the task.

    The resting height and the count of held steps are kept here, so make a new observer, or call :meth:`reset`,
    whenever the object is put somewhere else.

    Args:
        robot: The robot; its world holds the object.
        handle: The object.
        task: Gives the target circle.
    """

    def __init__(self, robot: ToolDriver, handle: ObjectHandle, task: Task | None = None) -> None:
        self._robot, self._handle = robot, handle
        self.task = task or Task()
        self.reset()

    def reset(self) -> None:
        """Take the object's present height as the one at which it rests, and count held steps from zero."""
        self._rest = self._robot.world.height_of(self._handle)
        self._held = 0

    def observe(self) -> SymbolicState:
        """The symbols now; counts a step for which the object was held."""
        world, handle = self._robot.world, self._handle
        points = transform_points(world.object_pose(handle), handle.points)
        low, high = points[:, 2].min(), points[:, 2].max()
        footprint = smallest_rectangle(points[:, :2])
        x, y = footprint.centre.tolist()
        tool, (left, right) = self._robot.tool(), self._robot.fingers.touching(handle)
        order = world.objects.index(handle)
        category = handle.prepared.category
        state = SymbolicState(
            object_x=x,
            object_y=y,
            object_z=float(low + high) / 2,
            object_yaw=footprint.yaw,
            object_length=footprint.length,
            object_width=footprint.width,
            object_height=float(high - low),
            object_shape=category if category in SHAPES else SHAPES[-1],
            object_colour=COLOURS[order % (len(COLOURS) - 1)],
            gripper_x=float(tool[0]),
            gripper_y=float(tool[1]),
            gripper_z=float(tool[2]),
            gripper_yaw=wrap_half_turn(float(tool[3])),
            gripper_width=max(self._robot.fingers.opening, 0.0),
            contact_left=left,
            contact_right=right,
            height=world.height_of(handle) - self._rest,
            in_target=self.task.contains(x, y),
        )
        self._held = min(self._held + 1, STABLE_STEPS) if bool(lifted(state.to_row()[None])[0]) else 0
        return state.replace(held_steps=self._held)
