"""Poses, cameras and meshes: pure functions on arrays (metres, radians, right-handed, z up)."""
