"""Three calls for any trial loop: :meth:`Scheduler.allocate`, :meth:`Scheduler.update`, :meth:`Scheduler.estimate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.curriculum.allocation import Allocation, AllocationConfig, allocate
from keygrasp.curriculum.baselines import GlobalRate, HistoryBeta, LatestRate, NeighbourBeta
from keygrasp.curriculum.difficulty import DifficultyConfig, GraphDifficulty
from keygrasp.curriculum.estimates import Estimate, Estimator, checked_outcomes, checked_places
from keygrasp.curriculum.evidence import State
from keygrasp.errors import ConfigurationError, InputError, suggestion
from keygrasp.files import atomic_path

SchedulerName = Literal["graph", "paper", "uniform", "history", "knn", "replay", "learnability"]

_FORMAT = 1
_MAX_STATE_BYTES = 8 * 2**30


@dataclass(frozen=True, eq=False)
class Visits:
    """Where trials went.

    Attributes:
        trials: (N,) trials of each sample so far.
        successes: (N,) how many succeeded.
        idle: (N,) updates since the sample was last tried; for those never tried, one more than there were updates.
    """

    trials: NDArray[np.int64]
    successes: NDArray[np.int64]
    idle: NDArray[np.int64]

    @property
    def wasted(self) -> NDArray[np.bool_]:
        """(N,) samples that were tried more than once, always with the same end: they taught least."""
        return np.asarray((self.trials > 1) & ((self.successes == 0) | (self.successes == self.trials)))


class Scheduler:
    """Decides which samples are worth the next trials.

    Args:
        estimator: Keeps the estimate of each sample.
        allocation: How a budget is spread.
        seed: Seed of all draws. The n-th allocation draws the same whether or not the run was stopped before it.
    """

    def __init__(self, estimator: Estimator, allocation: AllocationConfig | None = None, *, seed: int = 0) -> None:
        self.estimator = estimator
        self.allocation = allocation or AllocationConfig()
        self._seed = seed
        self._allocations = 0
        self._updates = 0
        self._trials = np.zeros(len(estimator), np.int64)
        self._successes = np.zeros(len(estimator), np.int64)
        self._last = np.full(len(estimator), -1, np.int64)

    def __len__(self) -> int:
        return len(self.estimator)

    def allocate(self, budget: int, *, among: ArrayLike | None = None) -> Allocation:
        """Which samples to try next, and how often each, ``budget`` trials in all.

        Args:
            budget: Trials.
            among: Ids of the samples that may be tried now; all where it isn't given.

        Raises:
            InputError: If the budget is no whole number of at least 0, or a sample is unknown.
        """
        places = np.arange(len(self)) if among is None else checked_places(len(self), among)
        rng = np.random.default_rng([self._seed, self._allocations])
        known = self.estimate()
        part = Estimate(known.mean[places], known.strength[places])
        found = allocate(part, budget, self.allocation, idle=self.visits.idle[places], rng=rng)
        self._allocations += 1
        return Allocation(places[found.ids], found.trials, found.unspent)

    def update(self, ids: ArrayLike, successes: ArrayLike, trials: ArrayLike) -> None:
        """Take one step's outcomes; whatever was tried may be given, allocated or not.

        Args:
            ids: (n,) samples; one that is given twice counts twice.
            successes: (n,) whole numbers of successes.
            trials: (n,) whole numbers of trials, 0 for those that weren't tried after all.

        Raises:
            InputError: If they don't fit; nothing has been changed then.
        """
        places, won, tried = checked_outcomes(len(self), ids, successes, trials)
        if not len(places):
            return
        self.estimator.update(places, won, tried)
        self._trials[places] += tried.astype(np.int64)
        self._successes[places] += won.astype(np.int64)
        self._last[places] = self._updates
        self._updates += 1

    def estimate(self) -> Estimate:
        """Mean and uncertainty of each sample's success rate under the present policy."""
        return self.estimator.estimate()

    def add(self, features: ArrayLike) -> NDArray[np.int64]:
        """Add samples and return their ids. Where the estimator has a graph they get their neighbours' estimate.

        Raises:
            InputError: If the features don't fit those of the others.
        """
        old = len(self)
        self.estimator.add(features)
        for name, value in (("_trials", 0), ("_successes", 0), ("_last", -1)):
            setattr(self, name, np.append(getattr(self, name), np.full(len(self) - old, value, np.int64)))
        return np.arange(old, len(self))

    @property
    def visits(self) -> Visits:
        """Where trials went so far."""
        idle = np.where(self._last >= 0, self._updates - 1 - self._last, self._updates + 1)
        return Visits(self._trials.copy(), self._successes.copy(), idle)

    def state_dict(self) -> State:
        """Everything that the future depends on, as named arrays: estimates, counts, and the place in all draws."""
        clock = np.array([_FORMAT, self._seed, self._allocations, self._updates], np.int64)
        own = {"clock": clock, "trials": self._trials, "won": self._successes, "last": self._last}
        learned = {f"estimator.{name}": value for name, value in self.estimator.state_dict().items()}
        return {name: np.array(value) for name, value in {**own, **learned}.items()}

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Go on where :meth:`state_dict` was taken, exactly; the scheduler must be of the same kind.

        Raises:
            InputError: If the state is of another kind of scheduler or format.
        """
        kind = type(self.estimator).__name__
        learned = {name.removeprefix("estimator."): v for name, v in state.items() if name.startswith("estimator.")}
        try:
            version, seed, allocations, updates = (int(v) for v in state["clock"])
            if version != _FORMAT or set(learned) != set(self.estimator.state_dict()):
                raise InputError(f"this is no state of a scheduler with {kind}", "Load it into the kind that wrote it")
            self.estimator.load_state_dict(learned)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise InputError(
                f"this is no state of a scheduler ({error!r})", "Give what state_dict() returned"
            ) from error
        self._seed, self._allocations, self._updates = seed, allocations, updates
        self._trials = np.array(state["trials"], np.int64)
        self._successes = np.array(state["won"], np.int64)
        self._last = np.array(state["last"], np.int64)

    def save(self, path: Path) -> None:
        """Write :meth:`state_dict` to a safetensors file, whole or not at all.

        Raises:
            StorageError: If it can't be written.
        """
        from safetensors.numpy import save_file

        with atomic_path(path) as temporary:
            save_file({k: np.ascontiguousarray(v) for k, v in self.state_dict().items()}, str(temporary))

    def load(self, path: Path) -> None:
        """Go on where :meth:`save` was called.

        Raises:
            InputError: If the file is missing, damaged, too large, or of another kind of scheduler.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            if path.stat().st_size > _MAX_STATE_BYTES:
                raise InputError(f"{path} is larger than {_MAX_STATE_BYTES // 2**30} GiB", "Is it the right file?")
            state = load_file(path)
        except (OSError, SafetensorError) as error:
            raise InputError(f"can't read {path} ({error})", "Give a file that save() wrote") from error
        self.load_state_dict(state)


def make_scheduler(
    name: SchedulerName | str,
    features: ArrayLike,
    *,
    seed: int = 0,
    allocation: AllocationConfig | None = None,
    **options: Any,
) -> Scheduler:
    """A scheduler by name.

    Args:
        name: ``graph``: difficulty states on the sample graph, trials where outcomes will be mixed. ``paper``: the same
            in the version of Liu et al. ``uniform``: any sample. ``history``: each sample's own Beta, Thompson sampling
            (MoPPS). ``knn``: with neighbours' outcomes. ``replay``: prioritised level replay. ``learnability``: the
            newest rate's p(1 − p) (SFL).
        features: (N, D) features of the samples.
        seed: Seed of all draws.
        allocation: Instead of the rule that goes with the name.
        **options: Settings of the estimator: fields of :class:`DifficultyConfig`, or the baselines' arguments.

    Raises:
        ConfigurationError: If the name or an option is unknown.
    """
    if name not in _KINDS:
        raise ConfigurationError(f"unknown scheduler '{name}'", suggestion(name, _KINDS))
    build, own = _KINDS[name]
    try:
        estimator = build(features, seed, options)
    except TypeError as error:
        raise ConfigurationError(f"scheduler '{name}': {error}", "Check its options") from error
    return Scheduler(estimator, allocation or own, seed=seed)


def _plain(kind: type[HistoryBeta]) -> Callable[[ArrayLike, int, dict[str, Any]], Estimator]:
    return lambda features, seed, options: kind(features, **options)


_KINDS: dict[str, tuple[Callable[[ArrayLike, int, dict[str, Any]], Estimator], AllocationConfig]] = {
    "graph": (
        lambda features, seed, options: GraphDifficulty(features, DifficultyConfig(seed=seed, **options)),
        AllocationConfig(),
    ),
    "paper": (
        lambda features, seed, options: GraphDifficulty(features, DifficultyConfig.paper(seed=seed, **options)),
        AllocationConfig(),
    ),
    "uniform": (_plain(GlobalRate), AllocationConfig("uniform")),
    "history": (_plain(HistoryBeta), AllocationConfig("thompson", explore=0.0)),
    "knn": (lambda features, seed, options: NeighbourBeta(features, seed=seed, **options), AllocationConfig()),
    "replay": (_plain(LatestRate), AllocationConfig("replay", explore=0.0)),
    "learnability": (_plain(LatestRate), AllocationConfig("learnability", explore=0.0)),
}
SCHEDULERS = get_args(SchedulerName)
