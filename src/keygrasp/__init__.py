"""keygrasp: geometric grasp planning, refined by a small Q-network on keypoints.

The package imports nothing heavy by itself: each room (``keygrasp.perception``, ``keygrasp.sim`` …) is
imported on its own and names the extra it needs when a dependency is missing.
"""

__version__ = "0.1.0"
