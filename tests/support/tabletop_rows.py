"""States of a table with blocks, as the workspace would give them."""

from keygrasp.scene.symbols import SymbolicState


def state(x=0.0, y=0.0, colour="red", **changes):
    """A block of 9 × 4 × 4 cm on the table, with an open gripper 15 cm above the table's middle."""
    values = {
        "object_x": x, "object_y": y, "object_z": 0.02, "object_yaw": 0.3, "object_length": 0.09, "object_width": 0.04,
        "object_height": 0.04, "object_shape": "elongated", "object_colour": colour, "gripper_x": 0.0, "gripper_y": 0.0,
        "gripper_z": 0.15, "gripper_yaw": 0.0, "gripper_width": 0.085,
    }  # fmt: skip
    return SymbolicState(**(values | changes))
