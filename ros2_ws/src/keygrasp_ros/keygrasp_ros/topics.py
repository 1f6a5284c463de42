"""Every topic, service and action of the graph: name, type and quality of service, written once.

Names are relative, so that a namespace puts a whole stack aside; ``/tf`` and ``/tf_static`` are global by custom and
can be remapped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseArray, PoseStamped
from keygrasp_interfaces.action import ExecuteGrasp, ExecutePush, Pick
from keygrasp_interfaces.msg import (
    GraspPlan,
    ImaginedTrajectory,
    PerceivedScene,
    PickRecord,
    ShapedReward,
    SkillEvent,
    SkillMotion,
    SymbolicState,
    Task,
)
from keygrasp_interfaces.srv import (
    ExtractKeypoints,
    GenerateGrasps,
    LoadObject,
    PredictOutcome,
    RefineGrasp,
    SetTask,
)
from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image, JointState
from std_msgs.msg import Bool, Empty, String
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

#: Results: kept for who comes late, so that a viewer shows the last one at once.
LATCHED = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
RELIABLE = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
#: The middleware itself says every second or so that the publisher's process lives.
_LIFELINE = QoSProfile(
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    liveliness=LivelinessPolicy.AUTOMATIC,
    liveliness_lease_duration=Duration(seconds=2),
)
_TF_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
#: The depth is for listeners: each publisher's transforms come once, and a listener that is late gets those of all of
#: them at once.
_TF_STATIC_QOS = QoSProfile(
    depth=100, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)


@dataclass(frozen=True)
class Topic:
    """A topic: ``publisher`` is the node that publishes it in the standard graph."""

    name: str
    type: Any
    qos: QoSProfile
    publisher: str
    description: str


@dataclass(frozen=True)
class Endpoint:
    """A service or an action: ``server`` is the node that answers it in the standard graph."""

    name: str
    type: Any
    server: str
    description: str


DEPTH = Topic("camera/depth/image_raw", Image, qos_profile_sensor_data, "sim_robot", "Overhead depth, 32FC1 metres.")
DEPTH_INFO = Topic(
    "camera/depth/camera_info", CameraInfo, qos_profile_sensor_data, "sim_robot", "Its camera model, same stamp."
)
OBSERVER = Topic(
    "observer/image_raw", Image, LATCHED, "sim_robot", "Picture of the scene at the end of each lift, rgb8."
)
JOINT_STATES = Topic("joint_states", JointState, RELIABLE, "sim_robot", "Joints of the arm (rad) and the gripper (m).")
ROBOT_DESCRIPTION = Topic("robot_description", String, LATCHED, "sim_robot", "URDF of the arm.")
TF = Topic("/tf", TFMessage, _TF_QOS, "sim_robot", "Links of the arm in the workspace frame.")
TF_STATIC = Topic(
    "/tf_static", TFMessage, _TF_STATIC_QOS, "sim_robot", "Camera and robot base in the workspace frame, one message."
)
SCENE = Topic("perceived", PerceivedScene, LATCHED, "keypoint_extractor", "Table, height map, objects, keypoints.")
KEYPOINT_MARKERS = Topic("perceived/markers", MarkerArray, LATCHED, "keypoint_extractor", "Keypoints for RViz.")
GRASPS = Topic("grasps", GraspPlan, LATCHED, "grasp_generator", "Generated plan, candidates best first.")
GRASP_POSES = Topic(
    "grasps/poses", PoseArray, LATCHED, "grasp_generator", "Candidates as poses (x closing axis, z approach)."
)
GRASP_MARKERS = Topic(
    "grasps/markers", MarkerArray, LATCHED, "grasp_generator", "Candidates for RViz, coloured by score."
)
REFINED = Topic("refined", GraspPlan, LATCHED, "pose_refiner", "Refined plan with its path.")
REFINED_POSES = Topic("refined/poses", PoseArray, LATCHED, "pose_refiner", "Refinement path as poses, last the grasp.")
REFINED_MARKERS = Topic("refined/markers", MarkerArray, LATCHED, "pose_refiner", "Refinement path and grasp for RViz.")
RECORD = Topic("pick/record", PickRecord, RELIABLE, "pick_server", "What a pick saw, planned and did, once at its end.")
PICK_TASK = Topic(
    "pick/task",
    String,
    RELIABLE,
    "pick_server",
    "Task of the pick that begins; `world_model` takes it over.",
)
OUTCOME_MARKERS = Topic(
    "pick/markers", MarkerArray, LATCHED, "pick_server", "Outcome of the last pick as text for RViz."
)
CLOCK = Topic("/clock", Clock, RELIABLE, "sim_robot", "Simulated time, where `publish_clock` is set.")
SYMBOLS = Topic("symbols", SymbolicState, RELIABLE, "sim_robot", "True symbols of the scene, while somebody listens.")
TASK = Topic("task", Task, LATCHED, "anybody", "What the robot is asked to do; `shaped_reward` listens.")
SHAPED_REWARD = Topic(
    "shaped_reward", ShapedReward, RELIABLE, "shaped_reward", "Reward of each step with its shaping term, and why."
)
SHAPED_REWARD_MARKERS = Topic(
    "shaped_reward/markers", MarkerArray, LATCHED, "shaped_reward", "Potential and reason as text for RViz."
)
SKILL_POSE = Topic(
    "skills/pose",
    PoseStamped,
    qos_profile_sensor_data,
    "anybody",
    "Where the small robot is, stamped when it was seen; `skill_robot` listens.",
)
SKILL_MOTION = Topic("skills/motion", SkillMotion, RELIABLE, "skill_robot", "What the small robot's motors get.")
SKILL_EVENTS = Topic(
    "skills/events", SkillEvent, RELIABLE, "skill_robot", "What it practises, how well, and what went wrong."
)
SKILL_MARKERS = Topic("skills/markers", MarkerArray, LATCHED, "skill_robot", "Its trail, place and skill for RViz.")
IMAGINED = Topic(
    "world_model/imagined", ImaginedTrajectory, LATCHED, "world_model",
    "Predicted symbols of the plan for the present task, with their uncertainty.",
)  # fmt: skip
IMAGINED_MARKERS = Topic(
    "world_model/markers", MarkerArray, LATCHED, "world_model", "The imagined trajectory for RViz."
)
EMERGENCY_STOP = Topic(
    "emergency_stop", Empty, RELIABLE, "anybody", "Each message stops the Delta; `delta_robot` listens."
)
HOLDING = Topic(
    "holding", Bool, RELIABLE, "anybody", "Whether an object hangs in the Delta's tool; `delta_robot` may ask for it."
)
DIAGNOSTICS = Topic("/diagnostics", DiagnosticArray, RELIABLE, "every node", "State at 1 Hz: counts and latencies.")

EXTRACT = Endpoint("extract_keypoints", ExtractKeypoints, "keypoint_extractor", "Understand a given depth image.")
GENERATE = Endpoint("generate_grasps", GenerateGrasps, "grasp_generator", "Generate grasps on a scene or an image.")
REFINE = Endpoint("refine_grasp", RefineGrasp, "pose_refiner", "Refine candidate grasps.")
LOAD_OBJECT = Endpoint("load_object", LoadObject, "sim_robot", "Put another object on the table (simulator only).")
RESET_SCENE = Endpoint(
    "reset_scene", Trigger, "sim_robot", "Put the present object back where it lay (simulator only)."
)
SET_TASK = Endpoint("world_model/set_task", SetTask, "world_model", "Set the task that is imagined, by name or text.")
PREDICT = Endpoint(
    "world_model/predict_outcome", PredictOutcome, "world_model", "Predict how grasps would end, without executing."
)
STOP = Endpoint("emergency_stop", Trigger, "delta_robot", "Stop the Delta at once, as the topic of that name does.")
RESET_STOP = Endpoint(
    "reset_emergency_stop", Trigger, "delta_robot", "Let the Delta move again after an emergency stop, and home it."
)
SKILL_STORE = Endpoint(
    "skills/store", Trigger, "skill_robot", "Let the small robot write what it has learned into its flash now."
)
SERVICES = (EXTRACT, GENERATE, REFINE, LOAD_OBJECT, RESET_SCENE, SET_TASK, PREDICT, STOP, RESET_STOP, SKILL_STORE)

PICK = Endpoint("pick", Pick, "pick_server", "Look, understand, plan, refine, execute.")
EXECUTE = Endpoint("execute_grasp", ExecuteGrasp, "sim_robot", "Execute one grasp.")
PUSH = Endpoint("execute_push", ExecutePush, "sim_robot", "Push with closed fingers (not every robot offers it).")
ACTIONS = (PICK, EXECUTE, PUSH)


def lifeline(endpoint: Endpoint) -> Topic:
    """The topic whose liveliness shows that the server of an endpoint lives."""
    text = f"Nothing is sent: its liveliness shows that '{endpoint.name}' has a living server."
    return Topic(f"{endpoint.name}/alive", Empty, _LIFELINE, endpoint.server, text)


TOPICS = (
    DEPTH, DEPTH_INFO, OBSERVER, JOINT_STATES, ROBOT_DESCRIPTION, TF, TF_STATIC, SCENE, KEYPOINT_MARKERS, GRASPS,
    GRASP_POSES, GRASP_MARKERS, REFINED, REFINED_POSES, REFINED_MARKERS, RECORD, PICK_TASK, OUTCOME_MARKERS,
    SYMBOLS, TASK, SHAPED_REWARD, SHAPED_REWARD_MARKERS, IMAGINED, IMAGINED_MARKERS, SKILL_POSE, SKILL_MOTION,
    SKILL_EVENTS, SKILL_MARKERS, EMERGENCY_STOP, HOLDING, DIAGNOSTICS, CLOCK,
    *(lifeline(endpoint) for endpoint in (EXTRACT, GENERATE, REFINE, EXECUTE)),
)  # fmt: skip
