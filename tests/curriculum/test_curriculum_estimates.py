"""Graph, states and estimates: probabilities sum to 1, estimates lie within bounds, the bound never falls."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.curriculum import DifficultyConfig, GraphDifficulty, make_scheduler
from keygrasp.curriculum.baselines import HistoryBeta, LatestRate, NeighbourBeta
from keygrasp.curriculum.graph import SampleGraph
from keygrasp.curriculum.simulation import SyntheticConfig, SyntheticTask, simulate
from keygrasp.errors import ConfigurationError, InputError

SMALL = SyntheticConfig(samples=300, clusters=6, batch=40, steps=12, scored=3)


def trained(config=SMALL, steps=6, **changes):
    task = SyntheticTask(config)
    estimator = GraphDifficulty(task.features, DifficultyConfig(states=12, kept=6, **changes))
    for step in range(steps):
        ids = task.draw()
        trials = np.full(len(ids), 8)
        won = task.attempt(ids, trials, step)
        estimator.update(ids, won.astype(float), trials.astype(float))
    return task, estimator


def test_the_graph_is_symmetric_positive_and_without_self_edges():
    graph = SampleGraph(SyntheticTask(SMALL).features, neighbours=8)
    weights = graph.weights.toarray()
    assert np.allclose(weights, weights.T)
    assert (graph.weights.data > 0).all()
    assert not weights.diagonal().any()
    assert (weights > 0).sum(axis=1).min() >= 1


def test_a_graph_that_was_made_elsewhere_can_be_used():
    task, usual = trained(neighbours=8)
    graph = SampleGraph(task.features, neighbours=8)
    other = GraphDifficulty.on_graph(
        SampleGraph.restored(graph.rows, graph.nearest, graph.cosine, normalise=True),
        DifficultyConfig(states=12, kept=6, neighbours=8),
    )
    task = SyntheticTask(SMALL)
    for step in range(6):
        ids = task.draw()
        other.update(ids, task.attempt(ids, np.full(len(ids), 8), step).astype(float), np.full(len(ids), 8.0))
    assert np.array_equal(other.estimate().mean, usual.estimate().mean)


def test_neighbours_are_those_of_a_full_search():
    rows = SyntheticTask(SMALL).features
    cosine = rows @ rows.T
    np.fill_diagonal(cosine, -2)
    expected = np.sort(np.argsort(-cosine, axis=1)[:, :5], axis=1)
    assert (np.sort(SampleGraph(rows, neighbours=5).nearest, axis=1) == expected).mean() > 0.999  # but for ties


def test_colours_have_no_edge_inside_and_cover_every_sample():
    graph = SampleGraph(SyntheticTask(SMALL).features, neighbours=8)
    groups = graph.colours()
    assert np.array_equal(np.sort(np.concatenate(groups)), np.arange(len(graph)))
    for group in groups:
        assert graph.weights[group][:, group].nnz == 0


@pytest.mark.parametrize("kept", [4, 12])
def test_sequential_sweeps_never_lower_the_bound(kept):
    task = SyntheticTask(SMALL)
    estimator = GraphDifficulty(
        task.features, DifficultyConfig(states=12, kept=kept, start="random", shift=0.0, sweep_every=0)
    )
    ids = np.arange(200)
    estimator.update(ids, task.attempt(ids, np.full(200, 8), 0).astype(float), np.full(200, 8.0))
    won, lost = estimator._known(np.arange(len(estimator)))
    estimator.field.refit(won, lost)
    bounds = [estimator.bound()]
    for _ in range(8):
        estimator.field.sweep(won, lost, sequential=True)
        bounds.append(estimator.bound())
    assert (np.diff(bounds) >= -1e-3 * np.abs(bounds[0]) * 1e-2).all(), bounds
    assert bounds[-1] > bounds[0]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    coupling=st.floats(0, 20),
    forgetting=st.floats(0.05, 1),
    shift=st.sampled_from([0.0, 0.1, 5.0]),
    outcomes=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 16), st.integers(0, 16)), max_size=30),
)
def test_probabilities_sum_to_one_and_estimates_lie_within_bounds(seed, coupling, forgetting, shift, outcomes):
    features = np.random.default_rng(seed).normal(size=(20, 3))
    scheduler = make_scheduler(
        "graph", features, states=5, kept=3, neighbours=4, coupling=coupling, forgetting=forgetting, shift=shift
    )
    for i, n, s in outcomes:
        scheduler.update([i], [min(s, n)], [n])
    field = scheduler.estimator.field
    assert np.allclose(field.values.sum(axis=1), 1, atol=1e-5)
    assert all(len(set(row)) == len(row) for row in field.places.tolist())
    found = scheduler.estimate()
    assert ((found.mean > 0) & (found.mean < 1)).all()
    assert (found.strength > 0).all()
    assert (found.deviation <= 0.5).all()
    assert ((found.learnability > 0) & (found.learnability <= 0.25)).all()


def test_the_states_counts_stay_those_of_a_fresh_count():
    _, estimator = trained(shift=0.0, sweep_every=0)
    kept = estimator.field.successes.copy(), estimator.field.failures.copy()
    estimator.field.refit(*estimator._known(np.arange(len(estimator))))
    assert np.allclose(kept[0], estimator.field.successes, atol=1e-2)
    assert np.allclose(kept[1], estimator.field.failures, atol=1e-2)


def test_only_the_neighbourhood_of_what_was_seen_is_touched():
    task, estimator = trained(sweep_every=0)
    before = estimator.field.values.copy()
    estimator.update(np.array([7]), np.array([3.0]), np.array([8.0]))
    changed = np.flatnonzero((estimator.field.values != before).any(axis=1))
    assert set(changed) <= set(estimator.graph.around(np.array([7])))


def test_a_new_sample_gets_its_neighbours_estimate_at_once():
    task, estimator = trained(SyntheticConfig(samples=300, clusters=6, batch=200, steps=12, scored=3, noise=0.1))
    size = len(estimator)
    twin = int(np.abs(estimator.estimate().mean - 0.5).argmax())  # far from what an unknown sample would get
    estimator.add(task.features[twin : twin + 1] + 1e-3)
    found = estimator.estimate().mean
    assert len(found) == size + 1
    assert abs(found[-1] - found[twin]) < 0.1
    estimator.update(np.array([size]), np.array([4.0]), np.array([8.0]))


def test_samples_that_come_later_find_the_same_neighbours():
    rows = SyntheticTask(SMALL).features
    later = SampleGraph(rows[:250], neighbours=8)
    later.add(rows[250:])
    whole = SampleGraph(rows, neighbours=8)
    newest = np.arange(250, 300)
    assert (np.sort(later.nearest[newest], axis=1) == np.sort(whole.nearest[newest], axis=1)).mean() > 0.99
    assert abs(later.weights.nnz - whole.weights.nnz) < 0.05 * whole.weights.nnz


def test_a_policy_that_improves_is_followed_where_it_was_not_tried():
    features = np.concatenate([np.eye(2)[[0] * 30], np.eye(2)[[1] * 30]]) + 0.01 * np.random.default_rng(0).normal(
        size=(60, 2)
    )
    scheduler = make_scheduler("graph", features, states=2, neighbours=5, shift=0.5)
    first, second = np.arange(30), np.arange(30, 60)
    scheduler.update(np.arange(60), np.full(60, 4), np.full(60, 16))
    before = scheduler.estimate().mean[second].mean()
    for _ in range(5):
        scheduler.update(first, np.full(30, 12), np.full(30, 16))
    assert scheduler.estimate().mean[second].mean() > before + 0.2


def test_the_study_beats_every_baseline():
    config = SyntheticConfig(samples=1000, clusters=20, batch=64, steps=16, scored=4, seed=3)
    names = ("graph", "knn", "knn-tuned", "history", "uniform")
    final = {name: curves.final(config) for name, curves in simulate(config, names).items()}
    for name in names[1:]:
        assert final["graph"]["mae"] < 0.8 * final[name]["mae"]
        assert final["graph"]["mae_never_seen"] < final[name]["mae_never_seen"]
        assert final["graph"]["spearman"] > final[name]["spearman"] - 0.005


def test_the_same_seed_gives_the_same_estimates():
    first, second = (trained()[1].estimate().mean for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("start", ["kmeans", "spectral", "random"])
@pytest.mark.parametrize("samples", [1, 2, 5])
def test_fewer_samples_than_states_or_neighbours_are_no_fault(start, samples):
    features = np.random.default_rng(0).normal(size=(samples, 4))
    estimator = GraphDifficulty(features, DifficultyConfig(start=start))
    estimator.update(np.array([0]), np.array([1.0]), np.array([2.0]))
    estimator.sweep()
    assert np.isfinite(estimator.bound())
    estimator.add(features + 1)
    assert len(estimator.estimate().mean) == 2 * samples


def test_features_that_are_all_alike_or_zero_are_no_fault():
    for features in (np.ones((30, 3)), np.zeros((30, 3))):
        estimator = GraphDifficulty(features, DifficultyConfig(states=4))
        estimator.update(np.arange(5), np.full(5, 2.0), np.full(5, 4.0))
        assert np.isfinite(estimator.estimate().mean).all()


@pytest.mark.parametrize(
    "features",
    [np.zeros(3), np.zeros((0, 3)), np.full((4, 2), np.nan), [["a", "b"]], [[1.0], [2.0, 3.0]]],
)
def test_features_that_cannot_be_used_are_refused(features):
    with pytest.raises(InputError, match="features"):
        GraphDifficulty(features)


def test_new_features_of_another_width_are_refused():
    for estimator in (GraphDifficulty(np.eye(4)), HistoryBeta(np.eye(4)), NeighbourBeta(np.eye(4))):
        with pytest.raises(InputError, match="columns"):
            estimator.add(np.ones((1, 5)))


@pytest.mark.parametrize(
    "changes",
    [{"states": 0}, {"kept": 0}, {"doubt": 1.0}, {"forgetting": 0.0}, {"coupling": -1.0}, {"strength": np.inf}],
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(ConfigurationError):
        DifficultyConfig(**changes)


def test_the_newest_rate_forgets_what_was_before():
    estimator = LatestRate(np.eye(3))
    estimator.update(np.array([1]), np.array([8.0]), np.array([8.0]))
    estimator.update(np.array([1]), np.array([0.0]), np.array([8.0]))
    assert estimator.estimate().mean[1] == pytest.approx(0.1)
