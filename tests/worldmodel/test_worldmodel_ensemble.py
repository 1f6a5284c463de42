"""The ensemble: what it knows before it learns, that it learns, and its file."""

import math

import pytest
import torch
from safetensors.torch import save_file

from keygrasp.errors import InputError
from keygrasp.worldmodel import dynamics
from keygrasp.worldmodel.ensemble import Ensemble, EnsembleConfig
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.evaluation import symbol_scores
from keygrasp.worldmodel.planner import Planner, PlannerConfig
from keygrasp.worldmodel.task_files import CodeTask
from keygrasp.worldmodel.training import TrainConfig, mirrored, mirrored_actions, train


def random_rows(layout, row, count, seed=0):
    draw = torch.Generator().manual_seed(seed)
    rows = row.repeat(count, 1)
    for name in ("gripper_x", "gripper_y"):
        rows[:, layout.columns[name]] = torch.rand(count, generator=draw) * 0.3 - 0.15
    for name in ("gripper_yaw", *(f"{o}.object_yaw" for o in layout.objects)):
        rows[:, layout.columns[name]] = (torch.rand(count, generator=draw) - 0.5) * 3.1
    for o in layout.objects:
        for name in ("contact_left", "contact_right"):
            rows[:, layout.columns[f"{o}.{name}"]] = (torch.rand(count, generator=draw) > 0.5).float()
    return rows, torch.rand(count, 5, generator=draw) * 2 - 1


def test_changes_between_rows_give_the_rows_back(layout, row):
    before, actions = random_rows(layout, row, 64)
    after, _ = random_rows(layout, row, 64, seed=1)
    for name in ("held_steps", "height"):  # what follows from the rest is computed
        after[:, [layout.columns[f"{o}.{name}"] for o in layout.objects]] = 0
    frame = dynamics.frame_of(before, actions)
    found = dynamics.apply(frame, dynamics.changes_between(frame, after))
    assert torch.allclose(found, after, atol=1e-5)


def test_what_is_held_moves_with_the_gripper(layout, row):
    row[layout.columns["blue.object_x"]] = 0.02
    actions = torch.tensor([[0.5, -1.0, 0.4, 1.0, 1.0]])
    frame = dynamics.frame_of(row[None], actions)
    fixed = dynamics.fixed_to_gripper(frame.motion, frame.offset, torch.zeros(1, 6))
    after = dynamics.apply(frame, dynamics.Changes(torch.zeros(1, 6), fixed, torch.zeros(1, 3, 2)))[0]
    turn = math.radians(25)
    gripper = after[:2]
    assert torch.allclose(gripper, torch.tensor([0.015, -0.03]), atol=1e-6)
    blue = after[layout.columns_of("blue")]
    assert torch.allclose(blue[:2] - gripper, 0.02 * torch.tensor([math.cos(turn), math.sin(turn)]), atol=1e-6)
    assert blue[3] == pytest.approx(0.3 + turn, abs=1e-5)
    assert blue[2] == pytest.approx(0.02 + 0.4 * 0.03, abs=1e-6)


def test_what_nothing_holds_falls_to_the_table_and_no_farther_than_a_decision_lasts(layout, row):
    lying, low, high = row.clone(), row.clone(), row.clone()
    column = layout.columns["blue.object_z"]
    low[column] += 0.05
    high[column] += 0.17
    rows = torch.stack([lying, low, high])
    frame = dynamics.frame_of(rows, torch.zeros(3, 5))
    after = dynamics.apply(
        frame, dynamics.Changes(torch.zeros(3, 6), dynamics.falling(frame.fall), torch.zeros(3, 3, 2))
    )
    assert torch.allclose(after[:2, column], row[column], atol=1e-6)
    assert after[2, column] == pytest.approx(float(row[column]) + 0.17 - 0.5 * 9.81 * 0.15**2, abs=1e-4)


def test_pads_press_with_the_share_of_their_force_that_they_are_told(layout, row):
    grips = torch.tensor([-1.0, 0.0, 0.05, 0.5])
    actions = torch.cat([torch.zeros(4, 4), grips[:, None]], dim=1)
    frame = dynamics.frame_of(row.repeat(4, 1), actions)
    pressed = dynamics.pressing(frame.motion, torch.ones(4))
    after = dynamics.apply(frame, dynamics.Changes(pressed, torch.zeros(4, 3, 7), torch.zeros(4, 3, 2)))
    assert after[:, layout.columns["gripper_force"]].tolist() == pytest.approx([0.0, 0.0, 1.0, 10.0])


def test_predictions_are_the_same_in_a_mirrored_and_a_moved_world(layout, row, model):
    """Mirrored frames and moved tables see the same inputs, up to left and right."""
    rows, actions = random_rows(layout, row, 32)
    signs = torch.tensor([[[-1] * 32], [[-1] * 32]])  # turned by half a turn
    turned = mirrored(rows[None, :, None], signs)[0, :, 0]
    acts = mirrored_actions(actions[None, :, None], signs)[0, :, 0]
    there = mirrored(model.step(model.start(turned), acts).symbols[None, :, None], signs)[0, :, 0]
    twice = mirrored(mirrored(rows[None, :, None], signs), signs)[0, :, 0]
    assert torch.allclose(twice, rows)
    frame, other = dynamics.frame_of(rows, actions), dynamics.frame_of(turned, acts)
    assert torch.allclose(frame.offset, -other.offset, atol=1e-5)
    assert there.shape == rows.shape
    moved = rows.clone()
    for index, name in enumerate(layout.names):
        moved[:, index] += 0.03 * name.endswith(("object_x", "gripper_x"))
    shift = model.step(model.start(moved), actions).symbols - model.step(model.start(rows), actions).symbols
    assert torch.allclose(shift[:, layout.columns["blue.object_x"]], torch.full((32,), 0.03), atol=1e-4)


def test_left_and_right_change_their_names_where_the_yaw_wraps(layout, row):
    row[layout.columns["gripper_yaw"]] = math.radians(80)
    row[layout.columns["blue.contact_left"]] = 1
    frame = dynamics.frame_of(row[None], torch.tensor([[0, 0, 0, 1.0, 0]]))
    contacts = torch.zeros(1, 3, 2)
    contacts[0, 1, 0] = 1
    after = dynamics.apply(frame, dynamics.Changes(torch.zeros(1, 6), torch.zeros(1, 3, 7), contacts))[0]
    assert after[layout.columns["gripper_yaw"]] == pytest.approx(math.radians(-75), abs=1e-5)
    assert after[layout.columns["blue.contact_left"]] == 0
    assert after[layout.columns["blue.contact_right"]] == 1


def test_pairs_predict_nearly_what_all_members_do_and_one_what_many_do(layout, row, model):
    rows, actions = random_rows(layout, row, 64)
    one = torch.cat([model.step(model.start(rows[i : i + 1]), actions[i : i + 1]).symbols for i in range(8)])
    several = model.step(model.start(rows[:9]), actions[:9]).symbols  # 9 rows can't be cut into parts: all members
    assert torch.allclose(one, several[:8], atol=1e-5)
    pairs = model.step(model.start(rows), actions)
    assert pairs.symbols.shape == rows.shape
    assert (pairs.deviation >= 0).all()
    assert float((pairs.symbols[:8] - one).abs()[:, :5].max()) < 0.05


def test_actions_that_are_not_finite_or_not_enough_are_refused(model, row):
    belief = model.start(row[None])
    with pytest.raises(InputError, match="an action is not finite"):
        model.step(belief, torch.full((1, 5), math.nan))
    with pytest.raises(InputError, match="expected"):
        model.step(belief, torch.zeros(1, 4))
    row[2] = math.inf
    with pytest.raises(InputError, match="gripper_z is not finite"):
        model.start(row[None])


def rising(layout, row, length, seed):
    """A world in which what is squeezed rises by 4 mm, and all else stays; it knows no left and right either."""
    draw = torch.Generator().manual_seed(seed)
    rows, actions = [row.clone()], torch.rand(length, 5, generator=draw) * 2 - 1
    actions[:, :4] = 0
    for action in actions:
        after = rows[-1].clone()
        for name in layout.objects:
            after[layout.columns[f"{name}.object_z"]] += 0.004 * float(action[4] > 0)
        rows.append(after)
    return Episode(torch.stack(rows), actions, truncated=True)


def test_it_learns_from_episodes_of_unequal_length_and_gets_surer(layout, row):
    episodes = [rising(layout, row, length, seed) for seed, length in enumerate([3, 8, 13, 5, 20, 17, 9, 12, 25, 30])]
    config = TrainConfig(updates=40, first_updates=120, batch=32, horizon=3, learning_rate=1e-2)
    model = train(episodes, config, EnsembleConfig(members=3, hidden=32))
    before, after = (symbol_scores(m, [rising(layout, row, 15, 99)], (1, 5))[1] for m in (Ensemble(seed=0), model))
    assert after.r2_of_change["object_z"] > 0.8 > before.r2_of_change["object_z"]
    brief = TrainConfig(updates=3, first_updates=3, batch=8, horizon=3)
    model, again = (train(episodes, brief, EnsembleConfig(members=3, hidden=32)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))


def test_a_model_comes_back_from_its_file_and_a_broken_file_is_refused(tmp_path, model, row):
    path = tmp_path / "m.safetensors"
    model.save(path)
    rows, actions = row.repeat(3, 1), torch.ones(3, 5)
    found = Ensemble.load(path)
    assert torch.equal(found.step(found.start(rows), actions).symbols, model.step(model.start(rows), actions).symbols)
    with pytest.raises(InputError, match="can't read"):
        Ensemble.load(tmp_path / "none.safetensors")
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(InputError, match="no whole model file"):
        Ensemble.load(path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(InputError, match="not of the format"):
        Ensemble.load(path)
    broken = Ensemble(EnsembleConfig(members=2, hidden=8))
    with torch.no_grad():
        broken.first.weight.fill_(math.nan)
    with pytest.raises(InputError, match="not finite"):
        broken.save(path)
    save_file(broken.state_dict(), path)
    with pytest.raises(InputError, match="not finite"):
        Ensemble.load(path)


def test_planning_leaves_nothing_behind_that_training_stumbles_over(layout, row, model):
    """Constants are made once and kept: made while planning, they must serve training too."""
    dynamics._constants.cache_clear()
    task = CodeTask("still", lambda step: step.after.new_zeros(len(step.after)), layout)
    settings = PlannerConfig(samples=32, elites=4, iterations=1, horizon=2, kept=1)
    Planner(model, task, settings).search(model.start(row[None]))
    brief = TrainConfig(updates=1, first_updates=1, batch=4, horizon=2)
    train([rising(layout, row, 5, 0)], brief, EnsembleConfig(members=2, hidden=8))
