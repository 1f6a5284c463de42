"""Budgets and the three calls: the faults that users of such schedulers have met, each as a test."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.curriculum import SCHEDULERS, AllocationConfig, Estimate, Scheduler, make_scheduler, mixed_probability
from keygrasp.curriculum.allocation import allocate
from keygrasp.curriculum.baselines import HistoryBeta
from keygrasp.errors import ConfigurationError, InputError

RULES = ("mixed", "learnability", "band", "uniform", "thompson", "replay")
FEATURES = np.random.default_rng(5).normal(size=(80, 4))


def scheduler_of(name="graph", features=FEATURES, **changes):
    options = {"states": 8, "neighbours": 6} if name in ("graph", "paper") else {}
    if name == "paper":
        options["kept"] = 8
    return make_scheduler(name, features, seed=3, **options, **changes)


def step(scheduler, rng, budget=64):
    given = scheduler.allocate(budget)
    scheduler.update(given.ids, rng.binomial(given.trials, 0.4), given.trials)
    return given


def known(mean, strength, size=40):
    return Estimate(np.full(size, mean), np.full(size, strength))


def give(estimate, budget, **config):
    idle = np.zeros(len(estimate.mean), np.int64)
    return allocate(estimate, budget, AllocationConfig(**config), idle=idle, rng=np.random.default_rng(0))


# Faults that users have reported.


@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_place_in_all_draws_is_kept_on_resume(name, tmp_path):
    """A stop between any two steps changes nothing that follows."""
    straight, before = scheduler_of(name), scheduler_of(name)
    for s in (straight, before):
        rng = np.random.default_rng(1)
        for _ in range(4):
            step(s, rng)
    before.save(tmp_path / "state.safetensors")
    after = scheduler_of(name, features=FEATURES[::-1])  # its own graph is replaced too
    after.load(tmp_path / "state.safetensors")
    for s in (straight, after):
        rng = np.random.default_rng(2)
        s.trace = [step(s, rng) for _ in range(25)]  # over a full sweep
    for one, other in zip(straight.trace, after.trace, strict=True):
        assert np.array_equal(one.ids, other.ids)
        assert np.array_equal(one.trials, other.trials)
    assert np.array_equal(straight.estimate().mean, after.estimate().mean)
    assert np.array_equal(straight.visits.trials, after.visits.trials)


def test_no_outcome_is_dropped_when_samples_run_out():
    """Fewer samples than a step asks for: all trials are placed, and repeated ids count each time."""
    scheduler = make_scheduler("history", np.eye(3), allocation=AllocationConfig("learnability", most=64))
    given = scheduler.allocate(100)
    assert given.total == 100
    scheduler.update([0, 1, 0], [1, 2, 3], [4, 4, 4])
    assert scheduler.visits.trials.tolist() == [8, 4, 0]
    assert scheduler.visits.successes.tolist() == [4, 2, 0]


def test_what_finds_no_place_is_told():
    given = give(known(0.5, 2.0, size=3), 100, most=16)
    assert (given.total, given.unspent) == (48, 52)


@pytest.mark.parametrize(("won", "tried"), [(9, 8), (-1, 8), (3, -1), (0.5, 8), (np.nan, 8), (1, np.inf)])
def test_a_pass_rate_above_one_is_refused_and_nothing_changes(won, tried):
    scheduler = scheduler_of()
    before = scheduler.state_dict()
    with pytest.raises(InputError):
        scheduler.update([1, 2], [1, won], [8, tried])
    after = scheduler.state_dict()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_pass_rate_above_one_is_never_reported():
    scheduler = scheduler_of()
    for _ in range(30):
        scheduler.update(np.arange(80), np.full(80, 8), np.full(80, 8))
    assert (scheduler.estimate().mean < 1).all()
    assert (scheduler.estimate().mean > 0.9).all()


def test_the_band_is_of_the_rate_not_of_its_mean():
    """All or nothing with equal chances: the mean is in the band, the sample never teaches."""
    mean, strength = np.full(20, 0.5), np.full(20, 0.05)
    strength[7] = 20.0
    given = give(Estimate(mean, strength), 4, rule="band", least=4, explore=0.0)
    assert given.ids.tolist() == [7]


def test_one_success_of_sixteen_is_not_none():
    for name in ("graph", "history", "knn", "learnability"):
        scheduler = scheduler_of(name)
        scheduler.update([0, 1], [0, 1], [16, 16])
        found = scheduler.estimate()
        assert found.mean[1] > found.mean[0] + 0.01
        assert found.learnability[1] > found.learnability[0]
        assert scheduler.visits.wasted[:2].tolist() == [True, False]


@pytest.mark.parametrize("name", ["graph", "knn"])
def test_samples_that_always_failed_get_another_trial(name):
    scheduler = scheduler_of(name)
    hopeless = np.arange(10)
    for _ in range(20):
        scheduler.update(hopeless, np.zeros(10), np.full(10, 8))
    again = set()
    for _ in range(60):
        given = scheduler.allocate(80)
        again |= set(given.ids) & set(hopeless)
        rest = ~np.isin(given.ids, hopeless)
        scheduler.update(given.ids, np.where(rest, given.trials // 2, 0), given.trials)
    assert again == set(hopeless)


def test_one_trial_is_worth_one_trial():
    estimator = HistoryBeta(np.eye(3), forgetting=1.0)
    estimator.update(np.array([0]), np.array([1.0]), np.array([1.0]))
    assert estimator.estimate().strength.tolist() == [3, 2, 2]
    assert estimator.estimate().mean[0] == pytest.approx(2 / 3)
    scheduler = scheduler_of(learn_strength=False, shift=0.0)
    before = scheduler.estimate()
    scheduler.update([0], [1], [1])
    after = scheduler.estimate()
    assert after.strength[0] - before.strength[0] == pytest.approx(1, abs=0.5)
    assert before.mean[0] < after.mean[0] < 0.75
    assert mixed_probability(np.ones(1), np.ones(1), 1)[0] == 0


# What an allocation keeps to.


@settings(max_examples=150, deadline=None)
@given(
    rule=st.sampled_from(RULES),
    size=st.integers(1, 40),
    budget=st.integers(0, 400),
    least=st.integers(1, 8),
    more=st.integers(0, 8),
    explore=st.floats(0, 1),
    seed=st.integers(0, 100),
)
def test_never_more_than_asked_and_less_only_where_all_are_full(rule, size, budget, least, more, explore, seed):
    rng = np.random.default_rng(seed)
    estimate = Estimate(rng.uniform(0.01, 0.99, size), rng.uniform(0.1, 50, size))
    config = AllocationConfig(rule, least=least, most=least + more, explore=explore)
    idle = rng.integers(0, 10, size)
    given = allocate(estimate, budget, config, idle=idle, rng=np.random.default_rng(seed))
    assert given.total + given.unspent == budget
    assert given.unspent == max(0, budget - size * config.most)
    assert len(np.unique(given.ids)) == len(given.ids)
    assert ((given.trials >= 1) & (given.trials <= config.most)).all()
    assert (given.trials < least).sum() <= 1  # a rest that is too little for one more sample
    again = allocate(estimate, budget, config, idle=idle, rng=np.random.default_rng(seed))
    assert np.array_equal(given.ids, again.ids)
    assert np.array_equal(given.trials, again.trials)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), least=st.integers(1, 3), budget=st.integers(1, 12))
def test_greedy_is_as_good_as_the_best_of_all_allocations(seed, least, budget):
    """Against all allocations that don't begin a sample with less than ``least``, up to a rest below ``least``."""
    rng = np.random.default_rng(seed)
    estimate = Estimate(rng.uniform(0.05, 0.95, 3), rng.uniform(0.5, 20, 3))
    most = 6

    def worth(trials):
        return sum(mixed_probability(estimate.a[[i]], estimate.b[[i]], n)[0] for i, n in enumerate(trials) if n)

    found = give(estimate, budget, least=least, most=most, explore=0.0)
    trials = np.zeros(3, int)
    trials[found.ids] = found.trials
    choices = [0, *range(least, most + 1)]
    whole = budget - max(least - 1, 1)  # greedy may leave so much to no use
    best = max((worth(t) for t in itertools.product(choices, repeat=3) if sum(t) <= whole), default=0.0)
    assert worth(trials) >= best - 1e-9


def test_the_chance_of_a_mixed_outcome_is_the_exact_one():
    a, b, n = 1.7, 0.6, 5
    drawn = np.random.default_rng(0).binomial(n, np.random.default_rng(1).beta(a, b, 200_000))
    expected = np.mean((drawn > 0) & (drawn < n))
    assert mixed_probability(np.array([a]), np.array([b]), n)[0] == pytest.approx(expected, abs=0.005)


def test_trials_go_where_outcomes_are_uncertain():
    mean = np.concatenate([np.full(20, 0.02), np.full(20, 0.5), np.full(20, 0.98)])
    given = give(Estimate(mean, np.full(60, 30.0)), 40, least=2, most=4, explore=0.0)
    assert set(given.ids) <= set(range(20, 40))


def test_equal_samples_are_chosen_among_at_random():
    given = give(known(0.5, 2.0, size=1000), 20, rule="learnability", explore=0.0)
    assert given.ids.max() > 300


def test_only_samples_that_may_be_tried_are_given():
    scheduler = scheduler_of()
    given = scheduler.allocate(30, among=[3, 5, 60, 5])
    assert set(given.ids) == {3, 5, 60}
    with pytest.raises(InputError, match="no sample 80"):
        scheduler.allocate(30, among=[80])


@pytest.mark.parametrize("budget", [-1, 1.5, np.nan, 10**12])
def test_budgets_that_make_no_sense_are_refused(budget):
    with pytest.raises(InputError, match="budget"):
        scheduler_of().allocate(budget)


@pytest.mark.parametrize("changes", [{"rule": "best"}, {"least": 0}, {"most": 1}, {"band": (0.8, 0.2)}, {"explore": 2}])
def test_rules_out_of_range_are_refused(changes):
    with pytest.raises(ConfigurationError):
        AllocationConfig(**changes)


def test_an_unknown_scheduler_names_the_nearest():
    with pytest.raises(ConfigurationError, match="'graph'"):
        make_scheduler("graphs", FEATURES)
    with pytest.raises(ConfigurationError, match="bananas"):
        make_scheduler("graph", FEATURES, bananas=3)


@pytest.mark.parametrize("ids", [[80], [-1], [0.5], ["a"], [0, 1]])
def test_outcomes_that_do_not_fit_are_refused(ids):
    with pytest.raises(InputError):
        scheduler_of().update(ids, [1], [2])


def test_no_outcomes_are_no_step():
    scheduler = scheduler_of()
    before = scheduler.state_dict()
    scheduler.update([], [], [])
    scheduler.update([4], [0], [0])
    assert all(np.array_equal(value, before[name]) for name, value in scheduler.state_dict().items())


def test_a_state_of_another_kind_or_a_damaged_file_is_refused(tmp_path):
    scheduler_of("history").save(tmp_path / "history")
    with pytest.raises(InputError, match="kind"):
        scheduler_of().load(tmp_path / "history")
    (tmp_path / "torn").write_bytes((tmp_path / "history").read_bytes()[:50])
    for name in ("torn", "missing"):
        with pytest.raises(InputError):
            scheduler_of("history").load(tmp_path / name)
    with pytest.raises(InputError):
        scheduler_of("history").load_state_dict({"clock": np.zeros(2)})


def test_added_samples_can_be_tried():
    scheduler = scheduler_of()
    new = scheduler.add(FEATURES[:3] + 0.01)
    assert new.tolist() == [80, 81, 82]
    scheduler.update(new, [1, 2, 0], [2, 2, 2])
    assert scheduler.visits.trials[80:].tolist() == [2, 2, 2]
    assert isinstance(scheduler, Scheduler)
