"""Build of the keygrasp_ros package (ament_python)."""

from setuptools import find_packages, setup

NODES = (
    "sim_robot",
    "trajectory_arm",
    "delta_robot",
    "scene_camera",
    "grasp_generator",
    "keypoint_extractor",
    "pose_refiner",
    "pick_server",
    "shaped_reward",
    "world_model",
    "skill_robot",
)

setup(
    name="keygrasp_ros",
    version="0.1.0",
    description="ROS 2 nodes around the keygrasp library",
    license="Apache-2.0",
    maintainer="The keygrasp developers",
    maintainer_email="maintainers@keygrasp.dev",
    packages=find_packages(include=["keygrasp_ros", "keygrasp_ros.*"]),
    package_data={"keygrasp_ros": ["templates/*.j2"]},
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/keygrasp_ros"]),
        ("share/keygrasp_ros", ["package.xml"]),
        ("share/keygrasp_ros/config", ["config/sim.yaml", "config/ur5.yaml", "config/delta.yaml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=True,
    entry_points={
        "console_scripts": [f"{node} = keygrasp_ros.executables:{node}" for node in NODES],
        "keygrasp.commands": [
            "up = keygrasp_ros.up:main",
            "view = keygrasp_ros.view:main",
            "record = keygrasp_ros.record:main",
            "replay = keygrasp_ros.replay:main",
        ],
    },
)
