"""Node: perceived scene or depth image → grasps, best first."""

from __future__ import annotations

from typing import Any

from keygrasp_interfaces.msg import Target
from rclpy.node import Node

from keygrasp.grasps import GeneratorConfig, GraspGenerator
from keygrasp.perception import Perceived
from keygrasp.scene import GraspPlan, GripperSpec
from keygrasp_ros.conversions import plan_message
from keygrasp_ros.delta_reach import REACH, reach_of
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.lifelines import offer
from keygrasp_ros.local_services import serve
from keygrasp_ros.markers import candidate_markers, poses
from keygrasp_ros.mirrors import Mirror
from keygrasp_ros.parameters import GRIPPER, fill, from_dataclass, reader
from keygrasp_ros.running import node_main
from keygrasp_ros.steps import PERCEPTION, Perceiver, answering, check_target
from keygrasp_ros.topics import GENERATE, GRASP_MARKERS, GRASP_POSES, GRASPS

PARAMETERS = (*PERCEPTION, *GRIPPER, *REACH, *from_dataclass("generator", GeneratorConfig))


class GraspGeneratorNode(Node):
    """Answers ``generate_grasps`` and publishes what it generates."""

    def __init__(self, **options: Any) -> None:
        super().__init__("grasp_generator", **options)
        read = reader(self, PARAMETERS)
        self._monitor = Monitor(self)
        self._perceiver = Perceiver(self, read)
        self._reach = reach_of(read, self._perceiver)
        self._gripper = fill(read, "gripper", GripperSpec)
        self._generator = GraspGenerator(fill(read, "generator", GeneratorConfig))
        self._plans, self._poses, self._markers = (
            Mirror(self, topic) for topic in (GRASPS, GRASP_POSES, GRASP_MARKERS)
        )
        self._lifeline = offer(self, GENERATE)
        serve(self, GENERATE, self._answer)

    def _answer(self, request: GENERATE.type.Request, response: GENERATE.type.Response) -> GENERATE.type.Response:
        with answering(response, self._monitor):
            perceived, header = self._perceiver.take(request.scene, request.depth, request.camera_info)
            index, plan = self._generate(perceived, request.target)
            response.plan = plan_message(plan, header, "geometric", index)
            self._plans.show(lambda: response.plan)
            self._poses.show(lambda: poses(plan.candidates, header))
            self._markers.show(lambda: candidate_markers(plan.candidates, self._gripper, header))
        return response

    def _generate(self, perceived: Perceived, target: Target) -> tuple[int, GraspPlan]:
        """The plan with the best score over the objects that the target allows, with its object's index."""
        allowed = check_target(target, perceived)
        if not allowed:
            nothing = (
                "no object lies in the region" if target.choice == Target.REGION else "nothing stands on the table"
            )
            return 0, GraspPlan(None, reason=perceived.note or nothing)
        reach = self._reach()
        plans = {index: self._generator.generate(perceived, index, self._gripper, reach) for index in allowed}
        found = {index: plan.grasp.score for index, plan in plans.items() if plan.grasp is not None}
        best = max(found, key=found.__getitem__) if found else allowed[0]
        return best, plans[best]


def main() -> int:
    """Run the node."""
    return node_main(GraspGeneratorNode)
