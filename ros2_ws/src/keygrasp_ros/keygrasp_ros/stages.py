"""Stages of a pick, in order: what the feedback of ``/pick`` and ``execute_grasp`` names."""

from __future__ import annotations

from enum import StrEnum

from keygrasp.scene import Stage


class PlanningStage(StrEnum):
    """Stages in which nothing moves yet."""

    LOOK = "look"
    PERCEIVE = "perceive"
    GENERATE = "generate"
    REFINE = "refine"


#: A push before a grasp, after which it is looked again; only where the pick server may push.
PUSH_STAGE = "push"
#: All of them. Those that move the arm are the library's; "shake" and "hold" or "place" end a pick.
STAGES: tuple[StrEnum, ...] = (*PlanningStage, *Stage)
