"""The default world model: a probabilistic ensemble over symbols (Chua et al., NeurIPS 2018), one object as the other.

Each member is a network that sees one object and the gripper (:func:`keygrasp.worldmodel.dynamics.inputs_of`), with
the same weights for every object, and predicts the object's changes; the largest of each hidden unit over the objects
predicts the gripper's. Reals have a mean and a bounded log-variance, contacts a probability. All members compute as
one batched product.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional

from keygrasp.configuration import config_from
from keygrasp.errors import InputError
from keygrasp.tensorfiles import read_weights, write_weights
from keygrasp.worldmodel import dynamics
from keygrasp.worldmodel.dynamics import Changes, Frame
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.model import Belief, check_actions

#: Version of the network's inputs and outputs; weights of another are refused.
FORMAT = "keygrasp-ensemble-2"
_MAX_BYTES = 256 * 2**20
_REMEDY = "Train it anew: keygrasp worldmodel train"
#: Bounds of log-variances of changes over their scales: a millimetre, and three centimetres.
_LOG_VARIANCE = (-5.0, 2.0)
_OWN = dynamics.OBJECT_TARGETS
#: How sure a network is at first that an object is not held, and that the pads press on nothing.
_FREE = 2.0


@dataclass(frozen=True)
class EnsembleConfig:
    """Sizes.

    Attributes:
        members: Networks.
        hidden: Width of the two hidden layers.
        pairs: Whether imagination gives each row to two members, in turn, instead of to all: half the time with four.
    """

    members: int = 4
    hidden: int = 64
    pairs: bool = True

    def __post_init__(self) -> None:
        if not 2 <= self.members <= 32 or not 8 <= self.hidden <= 2048:
            raise InputError("an ensemble needs 2 to 32 members of 8 to 2048 hidden units")


@dataclass(frozen=True, eq=False)
class Prediction:
    """What members predict: means, and log-variances of the reals; contacts are logits.

    Attributes:
        mean: Changes, the contacts as logits.
        raw_gripper: (..., 6) of which :attr:`gripper_variance` is made.
        raw_objects: (..., O, 7) of which :attr:`object_variance` is made.
    """

    mean: Changes
    raw_gripper: Tensor
    raw_objects: Tensor

    @property
    def gripper_variance(self) -> Tensor:
        """(..., 6) logarithms within their bounds."""
        return _bounded(self.raw_gripper)

    @property
    def object_variance(self) -> Tensor:
        """(..., O, 7) logarithms within their bounds."""
        return _bounded(self.raw_objects)


class Ensemble(nn.Module):
    """The ensemble; implements :class:`keygrasp.worldmodel.model.WorldModel`.

    Args:
        config: Sizes.
        layout: Which symbols.
        seed: Seed of the first weights.
    """

    def __init__(self, config: EnsembleConfig | None = None, layout: Layout | None = None, *, seed: int = 0) -> None:
        super().__init__()
        self.config, self.layout = config or EnsembleConfig(), layout or Layout()
        draw = torch.Generator().manual_seed(seed)
        m, h = self.config.members, self.config.hidden
        self.first = _Linear(m, dynamics.INPUTS, h, draw)
        self.second = _Linear(m, h, h, draw)
        self.object_head = _Linear(m, h, 1 + 2 * _OWN + 2, draw, gain=0.1)
        self.gripper_head = _Linear(m, h, 2 * dynamics.GRIPPER_TARGETS + 1, draw, gain=0.1)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.first.weight.device

    def only(self, objects: tuple[str, ...]) -> Ensemble:
        """The same weights for rows of some of the objects alone: faster, and blind to what the others do."""
        smaller, _ = self.layout.part(objects)
        model = Ensemble(self.config, smaller)
        model.first, model.second = self.first, self.second
        model.object_head, model.gripper_head = self.object_head, self.gripper_head
        return model.train(self.training)

    # Predictions of members

    def predict(self, motion: Tensor, offset: Tensor, fall: Tensor, inputs: Tensor) -> Prediction:
        """Predictions of every member for a batch of its own.

        Args:
            motion: (M, B, 6) and
            offset: (M, B, O, 2) and
            fall: (M, B, O) of frames.
            inputs: (M, B, O, INPUTS).
        """
        count, batch, objects, _ = inputs.shape
        by_object = (count, batch, objects, -1)
        x = torch.relu(self.first(inputs.flatten(1, 2)))
        x = torch.relu(self.second(x))
        own = self.object_head(x).reshape(by_object)
        grip = self.gripper_head(x.reshape(by_object).amax(dim=2))
        rest, grip_variance = grip[..., 1:].chunk(2, dim=-1)
        rest = rest + dynamics.pressing(motion, torch.sigmoid(grip[..., 0] - _FREE))
        hold = torch.sigmoid(own[..., :1] - _FREE)
        held, free = dynamics.fixed_to_gripper(motion, offset, rest), dynamics.falling(fall)
        changes = free + hold * (held - free) + own[..., 1 : 1 + _OWN]
        variance = own[..., 1 + _OWN : 1 + 2 * _OWN]
        return Prediction(Changes(rest, changes, own[..., -2:]), grip_variance, variance)

    # A world model

    def start(self, symbols: Tensor, images: Tensor | None = None) -> Belief:
        """See :class:`keygrasp.worldmodel.model.WorldModel`."""
        return Belief.certain(self.layout.check(symbols))

    def observe(self, belief: Belief, actions: Tensor, symbols: Tensor, images: Tensor | None = None) -> Belief:
        """See :class:`keygrasp.worldmodel.model.WorldModel`; what was seen is the whole state."""
        return Belief.certain(self.layout.check(symbols))

    @torch.no_grad()
    def step(self, belief: Belief, actions: Tensor) -> Belief:
        """See :class:`keygrasp.worldmodel.model.WorldModel`."""
        return self.imagine(belief, check_actions(actions, len(belief.symbols)))

    def imagine(self, belief: Belief, actions: Tensor) -> Belief:
        """:meth:`step` without its checks, for planners that made the actions themselves."""
        rows, m = belief.symbols, self.config.members
        frame = dynamics.frame_of(rows, actions)
        inputs = dynamics.inputs_of(frame, actions)
        if self.config.pairs and m > 2 and len(rows) % m == 0 and len(rows) >= 8 * m:
            mean, spread = self._pairs(frame, inputs)
        else:
            mean, spread = self._all(frame, inputs)
        symbols = dynamics.apply(frame, mean)
        return Belief(symbols, dynamics.deviation(*spread), belief.state)

    def _all(self, frame: Frame, inputs: Tensor) -> tuple[Changes, Changes]:
        """Mean and spread over all members."""
        m = self.config.members
        found = self.predict(*(x.expand(m, *x.shape) for x in (frame.motion, frame.offset, frame.fall, inputs))).mean
        found = found._replace(contacts=torch.sigmoid(found.contacts))
        return Changes(*(x.mean(dim=0) for x in found)), Changes(*(x.std(dim=0, correction=0) for x in found))

    def _pairs(self, frame: Frame, inputs: Tensor) -> tuple[Changes, Changes]:
        """Mean and spread of two members a row: the rows are cut into M parts, part g goes to members g and g + 1."""
        m = self.config.members

        def twice(x: Tensor) -> Tensor:
            parts = x.reshape(m, -1, *x.shape[1:])
            return torch.cat([parts, parts.roll(1, dims=0)], dim=1)  # member g gets parts g and g − 1

        found = self.predict(twice(frame.motion), twice(frame.offset), twice(frame.fall), twice(inputs)).mean
        found = found._replace(contacts=torch.sigmoid(found.contacts))

        def halves(x: Tensor) -> tuple[Tensor, Tensor]:
            own, other = x.chunk(2, dim=1)
            return own.flatten(0, 1), other.roll(-1, dims=0).flatten(0, 1)

        both = [halves(x) for x in found]
        return Changes(*((a + b) / 2 for a, b in both)), Changes(*((a - b).abs() / 2 for a, b in both))

    # On disk

    def save(self, path: Path, about: dict[str, object] | None = None) -> None:
        """Write the weights as safetensors, with what they need to be read; ``about`` is kept with them."""
        header = {"format": FORMAT, "config": asdict(self.config), "objects": self.layout.objects, "about": about or {}}
        write_weights(path, self.state_dict(), {"model": json.dumps(header)})

    @classmethod
    def load(cls, path: Path) -> Ensemble:
        """Read weights.

        Raises:
            InputError: If the file is missing, damaged, or of another format.
        """
        try:
            tensors, metadata = read_weights(path, _MAX_BYTES, _REMEDY)
            header = json.loads(metadata.get("model", "{}"))
        except OSError as error:
            raise InputError(f"can't read {path}: {error.strerror or error}", "Check the path") from error
        except (SafetensorError, json.JSONDecodeError) as error:
            raise InputError(f"{path} is no whole model file ({error})", _REMEDY) from error
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise InputError(f"{path} is not of the format {FORMAT}", _REMEDY)
        config = config_from(header.get("config"), EnsembleConfig, where=str(path))
        model = cls(config, Layout(tuple(map(str, header.get("objects", ())))))
        expected = {name: value.shape for name, value in model.state_dict().items()}
        if {name: value.shape for name, value in tensors.items()} != expected:
            raise InputError(f"{path} has other weights than its sizes say", _REMEDY)
        model.load_state_dict(tensors)
        return model.eval()


class _Linear(nn.Module):
    """A layer of every member."""

    def __init__(self, members: int, inputs: int, outputs: int, draw: torch.Generator, *, gain: float = 1.0) -> None:
        super().__init__()
        bound = gain * math.sqrt(6 / inputs) if gain == 1.0 else gain / math.sqrt(inputs)
        self.weight = nn.Parameter((2 * torch.rand((members, inputs, outputs), generator=draw) - 1) * bound)
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(M, N, inputs) → (M, N, outputs)."""
        return torch.baddbmm(self.bias, x, self.weight)


def _bounded(raw: Tensor) -> Tensor:
    """Log-variances softly kept within their bounds."""
    low, high = _LOG_VARIANCE
    return low + functional.softplus(high - functional.softplus(high - raw) - low)
