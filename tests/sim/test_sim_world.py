from __future__ import annotations

import dataclasses
import math

import numpy as np
import pybullet
import pytest
import trimesh

from keygrasp.errors import InputError, MeshError
from keygrasp.sim import World, clients


def test_box_rests_with_its_surface_on_the_table(world, box):
    handle = world.add_object(box(), (0.01, -0.02, 0.03))
    assert world.settle(handle)
    assert world.height_of(handle) == pytest.approx(0.020, abs=2e-4)
    assert world.top_of(handle) == pytest.approx(0.040, abs=3e-4)


def test_compound_keeps_its_notch(world, shape):
    sides = [
        trimesh.creation.box((0.02, 0.06, 0.06), trimesh.transformations.translation_matrix((x, 0, 0.03)))
        for x in (-0.04, 0.04)
    ]
    floor = trimesh.creation.box((0.06, 0.06, 0.01), trimesh.transformations.translation_matrix((0, 0, 0.005)))
    channel = shape(*sides, floor, mass=0.5)
    ball = shape(trimesh.creation.icosphere(2, 0.015), mass=0.02)
    handle = world.add_object(channel, (0, 0, 0.05))
    # The principal frame may turn the channel: find the direction in which it opens.
    opening = channel.hulls[0].mean(axis=0) + channel.hulls[1].mean(axis=0) - 2 * channel.hulls[2].mean(axis=0)
    up = opening / np.linalg.norm(opening)
    side = channel.hulls[1].mean(axis=0) - channel.hulls[0].mean(axis=0)
    side -= up * (side @ up)
    side /= np.linalg.norm(side)
    rotation = np.stack([side, np.cross(up, side), up])
    pose = np.eye(4)
    pose[:3, :3], pose[2, 3] = rotation, 0.005 - (handle.points @ up).min()
    world.set_object_pose(handle, pose)
    world.settle(handle)
    inside = world.add_object(ball, (0, 0, 0.08))
    world.settle(inside)
    assert world.height_of(inside) < 0.04


@pytest.mark.parametrize(("friction", "degrees", "slides"), [(0.5, 22, False), (0.5, 31, True), (0.3, 22, True)])
def test_contact_friction_is_mu(box, friction, degrees, slides):
    with World(friction=friction) as world:
        handle = world.add_object(box(0.1, 0.1, 0.03), (0, 0, 0.016))
        world.settle(handle)
        angle = math.radians(degrees)
        world.bullet.setGravity(9.81 * math.sin(angle), 0, -9.81 * math.cos(angle), physicsClientId=world.client)
        start = world.object_pose(handle)[0, 3]
        world.step(120)
        assert bool(world.object_pose(handle)[0, 3] - start > 0.01) == slides


def test_object_friction_is_that_of_the_pair(world, box):
    handle = world.add_object(box(0.1, 0.1, 0.03), (0, 0, 0.016), friction=0.2)
    own = world.bullet.getDynamicsInfo(handle.body, -1, physicsClientId=world.client)[1]
    assert own * math.sqrt(0.5) == pytest.approx(0.2)
    world.set_friction(0.4)
    assert world.bullet.getDynamicsInfo(handle.body, -1, physicsClientId=world.client)[1] == pytest.approx(
        math.sqrt(0.4)
    )


def test_mass_and_inertia_reach_the_engine(world, box):
    prepared = box(mass=0.37)
    handle = world.add_object(prepared)
    info = world.bullet.getDynamicsInfo(handle.body, -1, physicsClientId=world.client)
    assert info[0] == pytest.approx(0.37)
    assert info[2] == pytest.approx(tuple(prepared.inertia))


def test_what_keeps_rolling_does_not_settle(world, shape):
    handle = world.add_object(shape(trimesh.creation.icosphere(4, 0.03)), (0, 0, 0.03))
    world.bullet.resetBaseVelocity(handle.body, [0.2, 0, 0], [0, 0.2 / 0.03, 0], physicsClientId=world.client)
    assert not world.settle(handle, timeout=0.5)
    assert world.time == pytest.approx(0.5)


def test_what_has_left_the_table_is_not_settled(world, box):
    handle = world.add_object(box(), (0, 0, 0.021))
    pose = np.eye(4)
    pose[:3, 3] = (0.9, 0, 0.021)
    world.set_object_pose(handle, pose)
    assert not world.settle(handle)
    assert not world.is_on_table(handle)


def test_worlds_are_independent(box):
    with World() as first, World() as second:
        one = first.add_object(box(), (0, 0, 0.3))
        two = second.add_object(box(), (0, 0, 0.3))
        first.step(50)
        assert second.height_of(two) == pytest.approx(0.3)
        assert first.height_of(one) < 0.29
        first.close()
        second.step(50)
        assert second.height_of(two) < 0.29
        with pytest.raises(InputError, match="not in this world"):
            second.object_pose(one)


def test_a_world_in_a_used_client_is_as_good_as_new(box, monkeypatch):
    monkeypatch.setattr(clients, "_idle", [])

    def tumble(width):
        with World(friction=0.3) as world:
            handle = world.add_object(box(width), (0, 0, 0.2), (0.1, 0.3, 0.2, 0.9))
            world.save()
            world.step(200)
            return world.client, world.object_pose(handle), world.bullet.getNumBodies(physicsClientId=world.client)

    new, pose, bodies = tumble(0.04)
    assert tumble(0.06)[0] == new
    # What somebody's call without a client puts into a client that lies idle is not in the next world.
    sphere = pybullet.createCollisionShape(pybullet.GEOM_SPHERE, radius=0.1, physicsClientId=new)
    pybullet.createMultiBody(0, sphere, physicsClientId=new)
    used, again, bodies_again = tumble(0.04)
    assert used == new
    assert np.array_equal(pose, again)
    assert bodies == bodies_again


def test_snapshot_returns_exactly(world, box):
    handle = world.add_object(box(), (0, 0, 0.1), (0.1, 0.3, 0.2, 0.9))
    world.step(30)
    snapshot = world.save()
    ends = []
    for _ in range(2):
        world.restore(snapshot)
        world.step(100)
        ends.append(world.object_pose(handle))
    assert np.array_equal(ends[0], ends[1])
    assert world.time == pytest.approx(130 / 240)


def test_snapshot_of_other_bodies_is_refused(world, box):
    snapshot = world.save()
    handle = world.add_object(box())
    with pytest.raises(InputError, match="added or removed"):
        world.restore(snapshot)
    world.remove_object(handle)
    world.restore(snapshot)
    with pytest.raises(InputError, match="not in this world"):
        world.object_pose(handle)
    world.drop(snapshot)
    with pytest.raises(InputError, match="can't be restored"):
        world.restore(snapshot)


@pytest.mark.parametrize("position", [(1.0, 0, 0), (np.nan, 0, 0), (0, 0)])
def test_bad_positions_are_refused(world, box, position):
    with pytest.raises(InputError, match="can't be put"):
        world.add_object(box(), position)


def test_bad_shapes_are_refused(world, box):
    good = box()
    with pytest.raises(MeshError, match="hulls"):
        world.add_object(dataclasses.replace(good, hulls=()))
    with pytest.raises(MeshError, match="not finite"):
        world.add_object(dataclasses.replace(good, hulls=(np.full((8, 3), np.nan),)))
    with pytest.raises(MeshError, match="Simplify"):
        world.add_object(dataclasses.replace(good, vertices=np.zeros((200_000, 3))))
    with pytest.raises(InputError, match="friction"):
        world.add_object(good, friction=-1.0)
    assert world.objects == ()


def test_closing_twice_is_fine():
    world = World()
    world.close()
    world.close()
