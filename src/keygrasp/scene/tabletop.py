"""The table-top workspace: how far a gripper goes in a decision, and within which box."""

from __future__ import annotations

import math

#: Entries of an action, each in [-1, 1]: metres along x, y and z, radians of yaw, and the grip.
ACTIONS = ("dx", "dy", "dz", "dyaw", "grip")
#: What 1 stands for in the four motions of an action: metres, and radians.
MOTION_SCALE = (0.03, 0.03, 0.03, math.radians(25))
#: Newtons with which a pad presses where the grip is 1.
GRIP_FORCE = 20.0
#: Metres a second of each finger where the grip is −1 or positive.
FINGER_SPEED = 0.1
#: Seconds between two decisions.
DECISION_SECONDS = 0.15
#: Least and largest x, y and z in metres of the fingertips in the workspace frame.
REACH_LOW = (-0.2, -0.2, 0.006)
REACH_HIGH = (0.2, 0.2, 0.2)
#: Names of the two blocks and of the random object between them.
OBJECTS = ("red", "blue", "other")
#: Metres of the overhead camera above the table.
CAMERA_HEIGHT = 0.8
#: Metres from the table's middle beyond which an object is lost, which ends an episode.
LOST_DISTANCE = 0.32
