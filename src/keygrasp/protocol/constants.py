"""The values of the grasp protocol KG-1, each written once; change one only under a new protocol name."""

from __future__ import annotations

import math
from dataclasses import dataclass

from keygrasp.geometry.cameras import Intrinsics


@dataclass(frozen=True)
class KG1:
    """Scene, camera, noise and perturbations of KG-1 (metres, seconds, radians unless said otherwise).

    Motion values (speeds, lift, shake, success rule) belong to the robots: see ``robots.motion``.

    Attributes:
        name: Name under which results are reported.
        friction: Coulomb coefficient of a contact between object and pad or table.
        drop_range: Objects fall within ± this of the table's centre, in x and in y.
        drop_gap: Height of the object's lowest point over the table when it is let go.
        settle_seconds: A pose that still moves after this long is drawn again.
        settle_attempts: Poses drawn before the scene counts as impossible.
        camera_height: Height of the camera over the table.
        image_size: Rows and columns of the depth image in pixels.
        focal_length: fx and fy in pixels.
        iid_noise: Standard deviation of the independent noise of each pixel.
        correlated_noise: Standard deviation of the smooth noise.
        correlated_grid: Rows and columns of the grid on which the smooth noise is drawn.
        jitter_pixels: A pixel shows the depth of one at most this far from it.
        edge_step: Depth difference between neighbouring pixels from which they count as a depth edge.
        edge_dropout: Probability that a pixel at a depth edge is invalid.
        dropout: Probability that any other pixel is invalid.
        position_error: Standard deviation of x and y in robustness trials.
        height_error: Standard deviation of z in robustness trials.
        yaw_error: Standard deviation of yaw in robustness trials.
        friction_range: Range of the friction coefficient in robustness trials.
        robust_trials: Perturbed executions of one grasp.
        robust_successes: A grasp with at least so many successes of ``robust_trials`` is robust.
        attempts: Most attempts in up-to-three trials.
    """

    name: str = "KG-1"
    friction: float = 0.5
    drop_range: float = 0.05
    drop_gap: float = 0.005
    settle_seconds: float = 3.0
    settle_attempts: int = 20
    camera_height: float = 0.70
    image_size: int = 128
    focal_length: float = 256.0
    iid_noise: float = 0.001
    correlated_noise: float = 0.0015
    correlated_grid: int = 16
    jitter_pixels: int = 1
    edge_step: float = 0.010
    edge_dropout: float = 0.15
    dropout: float = 0.002
    position_error: float = 0.002
    height_error: float = 0.001
    yaw_error: float = math.radians(3.0)
    friction_range: tuple[float, float] = (0.4, 0.6)
    robust_trials: int = 10
    robust_successes: int = 9
    attempts: int = 3

    @property
    def intrinsics(self) -> Intrinsics:
        """The depth camera's pinhole model."""
        centre = (self.image_size - 1) / 2
        return Intrinsics(self.image_size, self.image_size, self.focal_length, self.focal_length, centre, centre)


#: The protocol under which every figure of this project is measured.
PROTOCOL = KG1()
