"""Experience for the refiner: grasps executed in physics, with their outcomes, on disk."""
