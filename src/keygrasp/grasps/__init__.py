"""Geometric grasp generation: antipodal candidates, collision, analytic quality."""

from keygrasp.grasps.arrays import check_grasps, grasp_array, grasps_from_array
from keygrasp.grasps.collision import footprint_clear
from keygrasp.grasps.config import GeneratorConfig
from keygrasp.grasps.generator import GraspGenerator
from keygrasp.grasps.planner import GeometricPlanner, repeats_last
from keygrasp.grasps.quality import QualityWeights, analytic_quality
from keygrasp.grasps.sampling import random_feasible

__all__ = [
    "GeneratorConfig",
    "GeometricPlanner",
    "GraspGenerator",
    "QualityWeights",
    "analytic_quality",
    "check_grasps",
    "footprint_clear",
    "grasp_array",
    "grasps_from_array",
    "random_feasible",
    "repeats_last",
]
