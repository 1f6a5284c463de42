"""The learner with another body: a gripper's pushes, what they are built on, and what they are good for."""

import dataclasses
import math

import numpy as np
import pytest

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.grasps import GeometricPlanner
from keygrasp.perception import perceive
from keygrasp.scene import GripperSpec, Outcome
from keygrasp.scene.pushes import PlanarPush
from keygrasp.sim.pushing import push_stages
from keygrasp.skills.clutter import ClutterScene, ClutterSpec
from keygrasp.skills.core import Event, Flag
from keygrasp.skills.faculty import Faculty
from keygrasp.skills.manipulator import SLOTS, ManipulatorSkills, Shove, load_skills, save_skills
from keygrasp.skills.parts import Part, part_of, parts_of
from keygrasp.skills.practice import SimulatedBench, fitness_of, practise
from keygrasp.skills.pregrasp import ENOUGH, PushPlanner, best_room, explore, possible, propose

GRIPPER = GripperSpec()
PART = Part(0.02, -0.03, 0.4, 0.11, 0.05, 0.03, np.zeros((4, 4), bool))
THEORY = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def faculty(memory=None):
    return Faculty(SLOTS, dict.fromkeys(SLOTS, THEORY), memory)


def test_skills_of_another_body_are_unlocked_by_the_core_s_graph():
    mine = faculty()
    assert mine.choose().skill == "stroke"
    choice = mine.choose()
    assert choice.motivation == pytest.approx(choice.novelty * choice.progress * choice.difficulty, rel=0.01)
    assert not mine.is_learned("push")
    assert mine.assess("stroke", 0.97) == Event.ENDED | Event.NEWLY_LEARNED
    assert mine.is_learned("stroke")
    assert mine.choose().skill == "push"  # as new, and harder
    for skill in ("push", "swing", "align"):
        mine.assess(skill, 0.97)
    assert mine.choose().skill == "clear"


def test_what_was_learned_fails_twice_and_all_is_in_doubt():
    mine = faculty()
    for skill in ("stroke", "swing"):
        mine.assess(skill, 0.99)
    assert mine.assess("stroke", 0.1) == Event.ENDED
    assert Event.LOST in mine.assess("stroke", 0.1)
    assert not mine.is_learned("swing")


def test_models_learn_what_theory_leaves_out_and_are_handed_on():
    mine, rng = faculty(), np.random.default_rng(0)
    for _ in range(40):
        a, b = rng.uniform(0.4, 1.6), rng.uniform(-0.8, 0.8)
        mine.learn("swing", a, b, (0.9 * a - 0.1, 0.6 * b + 0.02))
    assert mine.predict("swing", 1.0, 0.5) == pytest.approx((0.8, 0.32), abs=0.02)
    mine.inherit("align", "swing")
    assert mine.weights("align") == mine.weights("swing")
    again = faculty(mine.memory)
    assert again.weights("swing") == mine.weights("swing")
    assert len(mine.memory) == 768


@pytest.mark.parametrize(
    "slots",
    [{"a": "nothing"}, {"a": "move linear"}, {"a": "linear", "b": "linear"}],
    ids=["unknown", "orphan", "twice"],
)
def test_slots_that_cannot_be_are_refused(slots):
    with pytest.raises(ConfigurationError, match="slot"):
        Faculty(slots, {})
    with pytest.raises(InputError, match="no skill"):
        faculty().predict("juggle", 0, 0)


@pytest.mark.parametrize("side", range(4))
def test_a_push_begins_beside_its_side_and_goes_through_the_part(side):
    shove = Shove(PART, side, 0.01, 0.04)
    motion = shove.motion(GRIPPER)
    start, end = np.array([motion.x, motion.y]), np.array(motion.end)
    centre = np.array([PART.x, PART.y])
    assert (centre - start) @ shove.ahead == pytest.approx(shove.depth / 2 + 0.012 + 0.012)
    right = np.array([shove.ahead[1], -shove.ahead[0]])
    assert (start - centre) @ right == pytest.approx(0.01)
    assert (end - start) @ shove.ahead == pytest.approx(0.052)


def test_theory_inverts_itself():
    skills = ManipulatorSkills()
    moved = skills.expect(skills.straight(PART, 2, 0.05))
    assert math.hypot(moved.x - PART.x, moved.y - PART.y) == pytest.approx(0.05, abs=1e-4)
    assert moved.turn_from(PART) == pytest.approx(0.0, abs=1e-3)
    for angle in (0.4, -0.4):
        assert skills.expect(skills.turning(PART, 2, angle)).turn_from(PART) == pytest.approx(angle, abs=1e-3)


def test_fitness_is_the_millirobot_s():
    assert fitness_of("stroke", 0.05, 0.05, 0.0, 0.0) == 1.0
    assert fitness_of("stroke", 0.05, 0.04, 0.01, 0.0) == pytest.approx(1 - 1 / math.sqrt(3))
    assert fitness_of("swing", 0.5, 0.02, 0.0, math.radians(10)) == pytest.approx(0.5)
    assert fitness_of("push", 0.05, 0.045, 0.0, 0.0) == pytest.approx(0.8)
    assert fitness_of("align", -0.5, 0.0, 0.0, 0.5) == pytest.approx(-3.0)


def test_a_push_does_about_what_theory_says_and_stops_at_a_wall():
    with ClutterScene(ClutterSpec("free", 3)) as scene:
        bench = SimulatedBench(scene)
        (part,) = parts_of(bench.look())
        skills = ManipulatorSkills()
        shove = skills.straight(part, 2, 0.05)
        outcome = bench.push(shove.motion(GRIPPER))
        assert outcome.outcome is Outcome.SUCCESS
        (after,) = parts_of(bench.look())
        assert math.hypot(after.x - part.x, after.y - part.y) == pytest.approx(0.05, abs=0.008)
        stopped = push_stages(scene.robot, shove.motion(GRIPPER), scene.robot.profile, cancelled=lambda: True)
        assert stopped.outcome is Outcome.CANCELLED
        far = dataclasses.replace(shove.motion(GRIPPER), x=2.0)
        assert push_stages(scene.robot, far, scene.robot.profile).outcome is Outcome.UNREACHABLE
    with ClutterScene(ClutterSpec("wall", 3)) as scene:
        bench = SimulatedBench(scene)
        wall, part = parts_of(bench.look())
        into = max(range(4), key=lambda s: Shove(part, s, 0, 0).ahead @ [wall.x - part.x, wall.y - part.y])
        outcome = bench.push(Shove(part, into, 0.0, 0.05).motion(GRIPPER))
        assert outcome.outcome is Outcome.CONTACT_TOO_EARLY
        assert "while pushing" in outcome.message


@pytest.mark.parametrize("field", ["x", "length", "yaw"])
def test_pushes_that_are_none_are_refused(field):
    with pytest.raises(InputError, match=field):
        dataclasses.replace(PlanarPush(0, 0, 0, 0.1, 0.01, 0), **{field: math.nan})
    with pytest.raises(InputError, match="negative"):
        PlanarPush(0, 0, 0, -0.1, 0.01, 0)


def test_what_almost_touches_is_cut_apart_and_what_is_one_is_not():
    with ClutterScene(ClutterSpec("wall", 3)) as scene:
        perceived = perceive(scene.look())
        assert len(perceived.segments) == 1  # perception joins them
        wall, part = parts_of(perceived)
        place = scene.world.object_pose(scene.target)
        assert math.hypot(part.x - place[0, 3], part.y - place[1, 3]) < 0.01
        assert wall.width > GRIPPER.max_opening > part.width
    mask = np.zeros((40, 40), bool)
    mask[10:20, 5:35] = True
    with ClutterScene(ClutterSpec("free", 1)) as scene:
        perceived = perceive(scene.look())
        assert len(parts_of(perceived)) == 1
        flat = dataclasses.replace(perceived.height_map, heights=np.zeros((40, 40), np.float32), measured=mask)
        part = part_of(mask, flat)
        assert (part.length, part.width) == pytest.approx((30 * flat.cell, 10 * flat.cell))


@pytest.mark.parametrize("kind", ["wall", "pair"])
def test_pushes_make_room_where_no_grasp_is_found(kind):
    with ClutterScene(ClutterSpec(kind, 5)) as scene:
        bench, skills = SimulatedBench(scene), ManipulatorSkills()
        planner, seen = GeometricPlanner(), bench.look()
        assert planner.plan_perceived(seen, GRIPPER).grasp is None
        assert best_room(parts_of(seen), seen.height_map, GRIPPER) < ENOUGH
        best = propose(seen, GRIPPER, skills)[0]
        assert best.gain > 0
        pushes = PushPlanner(skills, GRIPPER)
        for _ in range(3):
            proposal = pushes.choose(seen)
            pushes.made(proposal, completed=bench.push(proposal.motion).success)
            seen = bench.look()
            plan = planner.plan_perceived(seen, GRIPPER)
            if plan.grasp is not None:
                break
        assert scene.robot.execute(plan.grasp).success


def test_a_lone_object_needs_no_push_and_a_robot_that_reaches_nothing_makes_none():
    with ClutterScene(ClutterSpec("free", 2)) as scene:
        seen = SimulatedBench(scene).look()
        assert propose(seen, GRIPPER, ManipulatorSkills()) == []
        assert possible(seen, GRIPPER)
        nowhere = lambda grasps: np.zeros(len(grasps), bool)  # noqa: E731 - as short as it is used
        assert possible(seen, GRIPPER, nowhere) == []
        assert explore(seen, GRIPPER, 0, nowhere) is None


def test_a_push_that_does_nothing_is_not_repeated_for_ever():
    with ClutterScene(ClutterSpec("wall", 5)) as scene:
        seen, skills = SimulatedBench(scene).look(), ManipulatorSkills()
        pushes = PushPlanner(skills, GRIPPER)
        first = pushes.choose(seen)
        for _ in range(4):  # the same picture again and again: nothing has moved
            pushes.made(pushes.choose(seen) or first, completed=False)
        last = pushes.choose(seen)
        assert last is None or last.gain < first.gain - 0.005
        assert skills.faculty.weights("push") == THEORY  # strokes that ended early teach nothing


def test_practice_unlocks_skills_in_order_and_learns_that_turns_are_shorter_than_theory():
    skills = ManipulatorSkills()
    runs = list(practise(skills, 16, seed=0))
    learned = [run.skill for run in runs if Event.NEWLY_LEARNED in run.events]
    assert learned.index("stroke") < learned.index("push")
    assert learned.index("swing") >= 0
    assert "align" in {run.skill for run in runs}
    assert 0.4 < skills.faculty.weights("align")[1][2] < 0.9


def test_skills_are_kept_in_a_small_file(tmp_path):
    skills = ManipulatorSkills()
    skills.assess("stroke", 0.99)
    save_skills(skills, tmp_path / "skills.json")
    assert load_skills(tmp_path / "skills.json").memory == skills.memory
    for name, text in (("none", None), ("empty", ""), ("other", '{"format": "x"}'), ("bad", '{"memory": 3}')):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(InputError):
            load_skills(tmp_path / name)
    (tmp_path / "short").write_text('{"format": "keygrasp manipulator skills 1", "memory": "00"}')
    with pytest.raises(ConfigurationError, match="768"):
        load_skills(tmp_path / "short")
    assert Flag.LEARNED in Flag(load_skills(tmp_path / "skills.json").faculty._skill("stroke").flags)


def test_unknown_scenes_are_refused():
    with pytest.raises(InputError, match="unknown"):
        ClutterScene(ClutterSpec("heap", 0))
