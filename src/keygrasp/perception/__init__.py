"""Overhead view → table plane → height map → segments → keypoints."""

from keygrasp.perception.config import PerceptionConfig
from keygrasp.perception.heights import build_height_map, sample_linear, smooth_heights
from keygrasp.perception.keypoints import extract_keypoints
from keygrasp.perception.outlines import Outline, cells_of, trace_outlines
from keygrasp.perception.pipeline import Perceived, perceive
from keygrasp.perception.segments import in_workspace, segment
from keygrasp.perception.table import Plane, estimate_table

__all__ = [
    "Outline",
    "Perceived",
    "PerceptionConfig",
    "Plane",
    "build_height_map",
    "cells_of",
    "estimate_table",
    "extract_keypoints",
    "in_workspace",
    "perceive",
    "sample_linear",
    "segment",
    "smooth_heights",
    "trace_outlines",
]
