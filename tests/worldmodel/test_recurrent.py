"""The recurrent image model: its distributions, what rewards may read, its losses and its scores."""

import dataclasses

import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence

from keygrasp.errors import InputError
from keygrasp.scene.symbols import SymbolKind
from keygrasp.worldmodel.ensemble import Ensemble, EnsembleConfig
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.loading import load_model
from keygrasp.worldmodel.model import IMAGE_SIZE
from keygrasp.worldmodel.planner import Planner, PlannerConfig
from keygrasp.worldmodel.recurrent import RecurrentConfig, RecurrentModel, RecurrentNetwork, reward_leak
from keygrasp.worldmodel.recurrent_data import Frames, Sequences
from keygrasp.worldmodel.recurrent_losses import (
    LOSSES,
    Noise,
    _posterior_pass,
    balanced_divergence,
    sequence_losses,
)
from keygrasp.worldmodel.recurrent_scores import image_scores, imagined_pictures
from keygrasp.worldmodel.recurrent_symbols import SymbolDistribution, SymbolKinds
from keygrasp.worldmodel.recurrent_training import (
    save_images_model,
)
from keygrasp.worldmodel.task_files import CodeTask, TaskSpec, task_from

LAYOUT = Layout()
SMALL = RecurrentConfig(memory=24, residual=6, hidden=32, channels=4, heads=2)
X, Y, WIDTH = (LAYOUT.columns[name] for name in ("gripper_x", "gripper_y", "gripper_width"))


def episode(seed, steps, images=True, layout=LAYOUT):
    """A gripper that goes where its actions say, over three blocks that stay; the picture shows the gripper."""
    rng = torch.Generator().manual_seed(seed)
    actions = torch.rand(steps, 5, generator=rng) * 2 - 1
    start = torch.rand(2, generator=rng) * 0.2 - 0.1
    rows = torch.zeros(steps + 1, layout.size)
    rows[:, [X, Y]] = torch.cat([start[None], start + (0.03 * actions[:, :2]).cumsum(dim=0)]).clamp(-0.2, 0.2)
    rows[:, WIDTH] = 0.06
    rows[:, layout.columns["red.object_length"]] = 0.05
    if not images:
        return Episode(rows, actions, truncated=True)
    pixel = torch.linspace(-0.2, 0.2, IMAGE_SIZE)
    off = (pixel[None, None] - rows[:, X, None, None]).square() + (
        pixel[None, :, None] - rows[:, Y, None, None]
    ).square()
    near = off < 0.03**2
    rgb = torch.where(near[..., None], 200, 60).expand(*near.shape, 3).to(torch.uint8)
    return Episode(rows, actions, truncated=True, rgb=rgb.clone(), depth=torch.where(near, 0.7, 0.8))


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    network = RecurrentNetwork(SMALL, LAYOUT).eval()
    for head in network.prior_symbols:  # as if trained: before, they agree that nothing changes
        torch.nn.init.normal_(head[-1].weight, std=0.1)
    return network


@pytest.fixture
def belief(network):
    model, data = RecurrentModel(network), episode(3, 8)
    return model.start(data.symbols[:8], data.images()[:8])


def losses_of(network, pieces, seed=2):
    noise = Noise.draw(network, tuple(pieces.actions.shape[:2]), 5, torch.Generator().manual_seed(seed))
    return dict(zip(LOSSES, sequence_losses(network, pieces, noise, 0.1), strict=True))


def distribution(kinds, seed):
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(4, kinds.outputs, generator=generator)
    return SymbolDistribution.of(kinds, outputs, torch.zeros(4, kinds.size))


def reference(d):
    """The same distributions by torch."""
    kinds = d.kinds
    yield Normal(d.location[:, kinds.gaussian], d.spread), kinds.gaussian
    yield Bernoulli(logits=d.location[:, kinds.boolean]), kinds.boolean
    for rows in kinds.categories:
        for row in rows:
            yield Categorical(logits=d.location[:, row]), row


def test_each_feature_of_the_layout_has_one_distribution():
    kinds = SymbolKinds(LAYOUT)
    assert kinds.size == LAYOUT.feature_size
    covered = [*kinds.gaussian.tolist(), *kinds.boolean.tolist()]
    covered += [at for rows in kinds.categories for at in rows.flatten().tolist()]
    assert sorted(covered) == list(range(kinds.size))
    assert sum(len(rows) for rows in kinds.categories) == sum(s.kind is SymbolKind.CATEGORY for s in LAYOUT.symbols)


def test_likelihood_and_divergence_are_those_of_torch():
    kinds = SymbolKinds(LAYOUT)
    d, other = distribution(kinds, 0), distribution(kinds, 1)
    features = LAYOUT.features(episode(0, 3).symbols)
    likelihood = divergence = 0
    for (mine, where), (its, _) in zip(reference(d), reference(other), strict=True):
        part = features[:, where]
        value = part.argmax(dim=1) if isinstance(mine, Categorical) else part
        share = mine.log_prob(value)
        if isinstance(mine, Normal):
            share = share + 0.5 * torch.log(torch.tensor(2 * torch.pi))
        likelihood = likelihood + share.reshape(4, -1).sum(dim=1)
        divergence = divergence + kl_divergence(mine, its).reshape(4, -1).sum(dim=1)
    assert torch.allclose(d.nll(features), -likelihood, rtol=1e-4)
    assert torch.allclose(d.divergence(other), divergence, rtol=1e-4)
    assert torch.allclose(d.divergence(d), torch.zeros(4), atol=1e-5)


def test_the_weighted_likelihood_has_the_gradient_of_squared_errors():
    kinds = SymbolKinds(LAYOUT)
    features = LAYOUT.features(episode(0, 3).symbols)
    outputs = torch.randn(4, kinds.outputs, generator=torch.Generator().manual_seed(0)).requires_grad_()
    d = SymbolDistribution.of(kinds, outputs, torch.zeros(4, kinds.size))
    (gradient,) = torch.autograd.grad(d.nll(features, weighted=True).sum(), d.location)
    expected = (d.location - features)[:, kinds.gaussian] / 0.1**2
    assert torch.allclose(gradient[:, kinds.gaussian], expected, rtol=1e-4, atol=1e-4)


def test_rewards_never_read_the_residual_part(network, belief):
    """Permuting v changes predicted rewards by exactly 0, for task files and for Python functions."""
    model, actions = RecurrentModel(network), torch.rand(8, 5) * 2 - 1
    spec = TaskSpec("mixed", ({"term": "closeness", "object": "red"}, {"term": "force"}, {"term": "effort"}))
    tasks = (task_from(spec, LAYOUT), CodeTask("far", lambda step: step.value("gripper_x"), LAYOUT))
    for task in tasks:
        assert reward_leak(model, task, belief, actions, torch.Generator().manual_seed(1)) == 0.0


def test_the_residual_part_matters_elsewhere(network, belief):
    """The leak test can't pass because v does nothing: pictures and memory change with it."""
    model = RecurrentModel(network)
    other = belief.state.clone()
    other[:, SMALL.memory :] = other[:, SMALL.memory :].roll(1, dims=0) + 1.0
    moved = dataclasses.replace(belief, state=other)
    assert (model.picture(moved) - model.picture(belief)).abs().max() > 1e-4
    actions = torch.zeros(8, 5)
    assert (model.step(moved, actions).state - model.step(belief, actions).state).abs().max() > 1e-4


def test_beliefs_hold_what_was_seen_and_what_is_imagined(network, belief):
    model, data = RecurrentModel(network), episode(3, 8)
    assert torch.equal(belief.symbols, data.symbols[:8])
    assert not belief.deviation.any()
    imagined = model.step(belief, data.actions)
    assert imagined.symbols.shape == (8, LAYOUT.size)
    assert (imagined.deviation > 0).any()
    LAYOUT.check(imagined.symbols)
    seen = model.observe(belief, data.actions, data.symbols[1:], data.images()[1:])
    assert torch.equal(seen.symbols, data.symbols[1:])
    blind = model.observe(belief, data.actions, data.symbols[1:])
    assert not torch.equal(blind.state, seen.state)
    assert model.picture(seen).shape == (8, 4, IMAGE_SIZE, IMAGE_SIZE)


def test_a_model_that_reads_symbols_off_images_takes_no_notice_of_given_ones(network):
    model, data = RecurrentModel(network, "images"), episode(3, 8)
    images = data.images()
    one, other = model.start(data.symbols, images), model.start(torch.zeros_like(data.symbols), images)
    assert torch.equal(one.symbols, other.symbols)
    with pytest.raises(InputError, match="Give images"):
        model.start(data.symbols)


def test_bad_actions_and_images_are_named(network, belief):
    model = RecurrentModel(network)
    with pytest.raises(InputError, match="not finite"):
        model.step(belief, torch.full((8, 5), torch.nan))
    with pytest.raises(InputError, match=r"\(8, 4\)"):
        model.step(belief, torch.zeros(8, 4))
    with pytest.raises(InputError, match="images have shape"):
        model.start(belief.symbols, torch.zeros(8, 3, 64, 64))


def test_scaled_images_can_be_scaled_back_and_what_is_not_seen_counts_as_table(network):
    images = episode(0, 2).images()
    assert torch.allclose(network.unscaled(network.scaled(images)), images, atol=1e-6)
    images[:, 3] = 0.0
    assert not network.scaled(images)[:, 3].any()


def test_pieces_are_aligned_and_short_episodes_are_filled(network):
    """Action t leads from row t to row t + 1; what lies after an episode's end is marked, whatever the lengths."""
    long, short = episode(0, 30), episode(1, 4)
    pieces = Frames(network, [long, short]).draw(12, 8, torch.Generator().manual_seed(0))
    ends = pieces.valid.sum(dim=1)
    assert set(ends.tolist()) == {5, 9}
    rows = LAYOUT.from_features(pieces.features)
    inside = pieces.valid[:, 1:]
    moved = (rows[:, 1:, X] - rows[:, :-1, X])[inside]
    free = (rows[:, 1:, X].abs() < 0.199)[inside]
    assert torch.allclose(moved[free], 0.03 * pieces.actions[..., 0][inside][free], atol=1e-5)
    assert not pieces.actions[~inside].any()


def test_rows_after_the_end_change_no_loss(network):
    pieces = Frames(network, [episode(1, 4)]).draw(3, 8, torch.Generator().manual_seed(0))
    changed = dataclasses.replace(
        pieces,
        images=torch.where(pieces.valid[..., None, None, None], pieces.images, 9.0),
        features=torch.where(pieces.valid[..., None], pieces.features, 0.3),
    )
    losses = [losses_of(network, p) for p in (pieces, changed)]
    for name in ("image", "symbols"):
        assert torch.allclose(losses[0][name], losses[1][name], rtol=1e-5)
    assert all(torch.isfinite(value) for value in losses[1].values())


def test_mirrored_pieces_show_what_their_symbols_say(network):
    """The bright spot of each picture is where the mirrored symbols have the gripper."""
    data = episode(4, 20)
    # As the overhead camera sees it: rows of pixels run along −y.
    data = dataclasses.replace(data, rgb=data.rgb.flip(1), depth=data.depth.flip(1))
    pieces = Frames(network, [data], mirror=True).draw(16, 8, torch.Generator().manual_seed(0))
    spot = (pieces.images[:, :, 0] > 0.1).float()
    pixel = torch.linspace(-0.2, 0.2, IMAGE_SIZE)
    total = spot.sum(dim=(-2, -1))
    x, y = (spot * pixel).sum(dim=(-2, -1)) / total, -(spot * pixel[:, None]).sum(dim=(-2, -1)) / total
    rows = LAYOUT.from_features(pieces.features)
    whole = (rows[..., [X, Y]].abs() < 0.16).all(dim=-1)
    assert torch.allclose(torch.stack([x, y], dim=-1)[whole], rows[..., [X, Y]][whole], atol=2e-3)
    moved = rows[:, 1:, [X, Y]] - rows[:, :-1, [X, Y]]
    inside = whole[:, 1:] & whole[:, :-1]
    assert torch.allclose(moved[inside], 0.03 * pieces.actions[..., :2][inside], atol=1e-5)
    corners = {(bool(a > 0), bool(b > 0)) for a, b in zip(rows[:, 0, X], rows[:, 0, Y], strict=True)}
    assert len(corners) > 1


def test_losses_are_computed_without_waiting_for_the_device_and_without_chance(network):
    """What a CUDA graph can record: on the meta device a value can't be read, and every random number is an input."""
    abstract = RecurrentNetwork(SMALL, LAYOUT).to("meta")
    pieces = Frames(network, [episode(1, 9)]).draw(2, 8, torch.Generator().manual_seed(0))
    noise = Noise.draw(network, (2, 8), 5, torch.Generator().manual_seed(0))
    parts = [{f.name: getattr(v, f.name).to("meta") for f in dataclasses.fields(v)} for v in (pieces, noise)]
    losses = sequence_losses(abstract, Sequences(**parts[0]), Noise(**parts[1]), 0.1)
    losses.sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in abstract.parameters())
    once, twice = (sequence_losses(network, pieces, noise, 0.1) for _ in range(2))
    assert torch.equal(once, twice)


def test_the_symbols_of_a_piece_are_told_in_all_rows_or_in_none(network):
    """Told half of the rows, the posterior could take symbols from the memory instead of reading the image."""
    pieces = Frames(network, [episode(1, 30)]).draw(6, 8, torch.Generator().manual_seed(0))
    noise = Noise.draw(network, (6, 8), 5, torch.Generator().manual_seed(0))
    assert 0 < noise.given.sum() < 6
    changed = dataclasses.replace(pieces, features=pieces.features + 0.5)
    latents = [_posterior_pass(network, p, noise)[0] for p in (pieces, changed)]
    same = (latents[0].memory == latents[1].memory).flatten(1).all(dim=1)
    assert torch.equal(same, ~noise.given[:, 0])


def test_episodes_without_images_are_refused(network):
    with pytest.raises(InputError, match="--images"):
        Frames(network, [episode(0, 6, images=False)])


def test_the_divergence_is_balanced_and_some_nats_are_free(network):
    memory = torch.randn(5, SMALL.memory)
    images = torch.randn(5, 4, IMAGE_SIZE, IMAGE_SIZE)
    prior = network.prior(memory, torch.zeros(5, LAYOUT.feature_size))
    posterior = network.see(memory, network.encode(images))
    network.zero_grad()
    balanced_divergence(posterior, prior).sum().backward()
    # The weight of the posterior's side is a tenth of the prior's: so is the gradient, where both enter alike.
    mine = network.posterior[-1].weight.grad.norm()
    its = network.prior_symbols[0][-1].weight.grad.norm()
    assert 0 < mine < its
    assert torch.allclose(balanced_divergence(prior, prior), torch.tensor(1.1), atol=1e-5)


def test_scores_from_images_are_of_the_right_rows(network):
    """Rows are compared with what was there at the same time: a model that is told the truth scores 1 at step 0."""
    episodes = [episode(seed, 12) for seed in range(3)]
    told = image_scores(RecurrentModel(network, "given"), episodes, steps=(0, 3), context=4)
    assert [score.steps for score in told] == [0, 3]
    assert told[0].r2["gripper_x"] == pytest.approx(1.0)
    assert told[1].r2["gripper_x"] < 1.0
    read = image_scores(RecurrentModel(network, "images"), episodes, steps=(0,), context=4)
    assert read[0].r2["gripper_x"] < 1.0  # an untrained eye
    # What never changes has no R², nothing has changed 0 steps ahead, and without contacts there is no F1.
    assert told[1].r2["object_length"] is None
    assert told[0].r2_of_change["gripper_x"] is None
    assert told[1].r2_of_change["gripper_x"] is not None
    assert told[0].f1 == {"contact_left": None, "contact_right": None}


def test_pieces_from_the_middle_of_episodes_are_scored(network):
    """At the first rows of an episode nothing is touched yet."""
    data = episode(0, 30)
    rows = data.symbols.clone()
    rows[24, LAYOUT.columns["red.contact_left"]] = 1.0
    data = dataclasses.replace(data, symbols=rows)
    (score,) = image_scores(RecurrentModel(network, "given"), [data], steps=(0,), context=4, stride=10)
    assert score.pieces == 3
    assert score.f1["contact_left"] == 1.0
    with pytest.raises(InputError, match="no episode has 19 actions"):
        image_scores(RecurrentModel(network, "images"), [episode(0, 12)], steps=(15,), context=4)


def test_pictures_are_those_of_the_steps_that_were_not_seen(network):
    data = episode(5, 12)
    real, imagined = imagined_pictures(RecurrentModel(network, "images"), data, 4, 6)
    assert real.shape == imagined.shape == (7, 4, IMAGE_SIZE, IMAGE_SIZE)
    assert torch.equal(real, data.images()[4:11])
    with pytest.raises(InputError, match="--images"):
        imagined_pictures(RecurrentModel(network, "images"), episode(5, 12, images=False), 4, 6)


def test_planners_and_commands_take_it_as_they_take_the_ensemble(network, belief, tmp_path):
    save_images_model(tmp_path / "images.safetensors", network)
    Ensemble(EnsembleConfig(members=2, hidden=16)).save(tmp_path / "ensemble.safetensors")
    task = task_from(TaskSpec("near", ({"term": "closeness", "object": "red"},)), LAYOUT)
    settings = PlannerConfig(samples=8, elites=4, iterations=2, horizon=3, kept=2)
    for name, kind in (("images", RecurrentModel), ("ensemble", Ensemble)):
        model = load_model(tmp_path / f"{name}.safetensors")
        assert isinstance(model, kind)
        plan = Planner(model, task, settings).plan(model.start(belief.symbols[:1]))
        assert plan.symbols.shape == (4, LAYOUT.size)
    with pytest.raises(InputError, match="Check the path"):
        load_model(tmp_path / "nowhere.safetensors")


def test_sequences_say_what_they_hold():
    assert [field.name for field in dataclasses.fields(Sequences)] == ["features", "images", "actions", "valid"]
