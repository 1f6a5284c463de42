"""Depth images as real classes of cameras take them: noise, offset, dropout and quantisation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.protocol.constants import KG1, PROTOCOL
from keygrasp.protocol.noise import camera_noise


@dataclass(frozen=True)
class DepthCamera:
    """A class of cameras at KG-1's distance and resolution.

    Attributes:
        noise: Standard deviations, jitter and dropout; all else of the protocol stays.
        offset: Metres by which all depths are wrong; the sign differs from camera to camera.
        step: Metres between two depths that it can tell apart, at 0.7 m.
    """

    noise: KG1
    offset: float
    step: float

    def image(self, depth: NDArray[np.floating], rng: np.random.Generator) -> NDArray[np.float32]:
        """What it makes of a rendered depth image (H, W) in metres; NaN where it has no value."""
        noisy = camera_noise(depth, rng, self.noise) + self.offset * rng.choice((-1.0, 1.0))
        return np.asarray(np.round(noisy / self.step) * self.step, dtype=np.float32)


#: Structured light of the first Kinect at 0.7 m: 0.7 mm of random error and steps of 1.4 mm (Khoshelham and Elberink,
#: Sensors 12, 2012), 0.8 pixels of lateral error and shadows at edges (Nguyen et al., 3DIMPVT 2012). Active stereo of a
#: D435 at 0.7 m: 0.08 pixels of disparity are 1.7 mm, much of it smooth over neighbours, in steps of 1 mm, within 2 %
#: of the distance (its data sheet), of which a calibrated camera keeps a part. Dropout and offsets are estimates.
CAMERAS = {
    "kinect": DepthCamera(
        dataclasses.replace(
            PROTOCOL,
            name="Kinect class",
            iid_noise=0.0007,
            correlated_noise=0.0015,
            jitter_pixels=1,
            edge_dropout=0.40,
            dropout=0.01,
        ),
        offset=0.004,
        step=0.0014,
    ),
    "realsense": DepthCamera(
        dataclasses.replace(
            PROTOCOL,
            name="RealSense class",
            iid_noise=0.0010,
            correlated_noise=0.0025,
            correlated_grid=32,
            jitter_pixels=2,
            edge_dropout=0.25,
            dropout=0.02,
        ),
        offset=0.005,
        step=0.001,
    ),
}


def depth_camera(name: str) -> DepthCamera:
    """A class of cameras by name.

    Raises:
        InputError: If there is none of that name.
    """
    if name not in CAMERAS:
        raise InputError(f"unknown depth camera '{name}'", f"Known: {', '.join(CAMERAS)}")
    return CAMERAS[name]
