"""The Q-network at run time: the values of ``network(featurise(…))`` in fewer and larger steps.

Planning scores some hundreds of grasps on one object in small batches, where starting operations takes longer than
arithmetic does. So what depends on the object alone is prepared once, the keypoints' features are one matrix product,
the convolutions are products of gathered rows, and all results go into buffers that are made once a batch size. In the
height samples' part the batch comes last: a gathered row is then one run of memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from keygrasp.refine.actions import ACTIONS
from keygrasp.refine.network import NetworkConfig, QNetwork
from keygrasp.refine.state import (
    GRID_ACROSS,
    GRID_ALONG,
    HEIGHT,
    HEIGHT_CHANNELS,
    KEYPOINT_FEATURES,
    LENGTH,
    SCALARS,
    STORED,
    SceneTensors,
    grid_axes,
)
from keygrasp.scene import TOTAL_ROWS, GripperSpec

Floats = NDArray[np.float32]

#: Grasps are cut into batches of the largest size and a rest that is filled up to the next: few buffers serve all.
_SIZES = (2, 4, 8, 16, 32, 48)
_SAMPLES = GRID_ACROSS * GRID_ALONG
#: Feature of a keypoint that is |u| minus half of the opening: the one that isn't linear in the keypoint.
_OUTSIDE = 6
#: Columns of the keypoints here: that feature is split into |u| and, last, what is subtracted from it.
_COLUMNS = KEYPOINT_FEATURES + 1
#: Numbers of a grasp that the columns are linear in: 1, cos, sin, centre in its own frame (2), z, width.
_TERMS = 7
_ONE = np.float32(1)


@dataclass(frozen=True, eq=False)
class GraspInputs:
    """What a network sees of B grasps: :class:`keygrasp.refine.state.GraspFeatures`, laid out for speed.

    Attributes:
        heights: (HEIGHT_CHANNELS · samples + 1, B); the last row is 0, what a convolution sees beyond the border.
        keypoints: (B · K, _COLUMNS) of the K used keypoints.
        scalars: (SCALARS, B).
    """

    heights: Floats
    keypoints: Floats
    scalars: Floats


class ObjectView:
    """Makes the inputs of one gripper's grasps on one object."""

    def __init__(self, scene: SceneTensors, gripper: GripperSpec) -> None:
        """Prepare for the object of ``scene``, which holds one."""
        self._heights = scene.heights[0].numpy()
        self._over_table = np.clip(self._heights / np.float32(LENGTH), -1, 2.5)
        self._origin, self._cell = scene.origin.numpy(), np.float32(scene.cell)
        self._along, across = (axis.numpy() for axis in grid_axes())
        self._across, self._distance = across[:, None], np.abs(self._along)[:, None]
        self._thickness = np.float32(gripper.pad_thickness)
        self._beside = (np.abs(across) <= gripper.pad_width / 2).astype(np.float32)[:, None, None]
        rows = scene.keypoints[0][scene.mask[0]]
        rows = torch.cat([rows, torch.ones(len(rows), 1)], dim=1)
        self._keypoints = torch.einsum("ks,stf->tkf", rows, _keypoint_map()).flatten(1).numpy()
        lengths = (gripper.max_opening, gripper.pad_width, gripper.pad_thickness, gripper.pad_height)
        self._lengths = np.array(lengths, np.float32)[:, None] / np.float32(LENGTH)

    def inputs(self, grasps: Floats) -> GraspInputs:
        """Inputs of grasps (B, 5), B being one of the batch sizes; valid until the next call in this thread."""
        buffers = _made_once(_InputBuffers, len(grasps))
        terms = buffers.terms
        x, y, z, _, width = grasps.T
        # By torch, as in ``featurise``: another library's last bit could round to another cell.
        yaw = torch.from_numpy(grasps[:, 3])
        cos, sin = torch.cos(yaw).numpy(), torch.sin(yaw).numpy()
        for column, values in enumerate((cos, sin, cos * x + sin * y, cos * y - sin * x, z, width), start=1):
            terms[:, column] = values
        places = self._places(grasps, cos, sin, buffers.cells)
        above = self._heights.take(places)
        above -= grasps[:, 2:3]
        above /= np.float32(HEIGHT)
        torch.from_numpy(above).clamp_(-2, 2)
        over_tips, over_table, pads = buffers.channels
        over_tips[:] = above[:, :-1].T
        over_table[:] = self._over_table.take(places[:, :-1]).T
        inner = width / 2
        between = (self._distance >= inner) & (self._distance <= inner + self._thickness)
        np.multiply(between, self._beside, out=pads.reshape(GRID_ACROSS, GRID_ALONG, -1))
        keypoints = (terms @ self._keypoints).reshape(-1, _COLUMNS)
        np.abs(keypoints[:, _OUTSIDE], out=keypoints[:, _OUTSIDE])
        scalars = buffers.scalars
        scalars[:2] = terms[:, -2:].T / np.float32(LENGTH)
        scalars[2] = above[:, -1]
        scalars[3:] = self._lengths
        return GraspInputs(buffers.heights, keypoints, scalars)

    def _places(self, grasps: Floats, cos: Floats, sin: Floats, cells: Floats) -> NDArray[np.intp]:
        """Flat indices (B, samples + 1) of the cells under the gripper's grid, and under its centre.

        The same operations in the same order as in ``featurise``, so that each sample rounds to the same cell.
        """
        height, width = self._heights.shape
        for axis, (along, across, last) in enumerate(((cos, -sin, width - 1), (sin, cos, height - 1))):
            cell = cells[axis]
            grid = cell[:, :-1].reshape(-1, GRID_ACROSS, GRID_ALONG)
            np.add(along[:, None, None] * self._along, across[:, None, None] * self._across, out=grid)
            cell[:, -1] = 0.0
            cell += grasps[:, axis : axis + 1]
            cell -= self._origin[axis]
            cell /= self._cell
            np.rint(cell, out=cell)
            cell += _ONE
            torch.from_numpy(cell).clamp_(0, last)
        # Single precision counts the cells of any map exactly: it has at most 1026² of them.
        columns, rows = cells
        rows *= np.float32(width)
        rows += columns
        return np.asarray(rows, dtype=np.intp)


class FastNetwork:
    """A Q-network's weights, laid out for :class:`GraspInputs`. Later changes of the network don't reach it."""

    def __init__(self, network: QNetwork) -> None:
        self._config = network.config
        weights = {name: value.detach() for name, value in network.state_dict().items()}

        def layer(name: str) -> Floats:
            """Weights (out, in + 1) of a layer, its bias as the last column."""
            return torch.cat([weights[f"{name}.weight"].flatten(1), weights[f"{name}.bias"][:, None]], dim=1).numpy()

        first = weights["keypoints.0.weight"].T
        first = torch.cat([first, -first[_OUTSIDE : _OUTSIDE + 1]])
        self._points = (
            (weights["keypoints.0.bias"], first),
            (weights["keypoints.2.bias"], weights["keypoints.2.weight"].T),
        )
        self._convolutions = layer("heights.0"), layer("heights.2")
        self._dense, self._trunk = layer("heights.5"), (layer("trunk.0"), layer("trunk.2"))
        advantage = layer("advantage")
        self._head = layer("value") + advantage - advantage.mean(axis=0)

    def logits(self, inputs: GraspInputs) -> Floats:
        """Logits (B, ACTIONS)."""
        buffers = _made_once(_LayerBuffers, inputs.scalars.shape[1], self._config)
        seen = inputs.heights
        for weight, patches, gather, output in zip(
            self._convolutions, buffers.patches, buffers.gathers, buffers.convolved, strict=True
        ):
            np.take(seen, gather, axis=0, out=patches[: len(gather)], mode="clip")
            _layer(weight, patches.reshape(weight.shape[1], -1), output[:-1].reshape(len(weight), -1))
            seen = output
        hidden, largest, mean, scalars = buffers.parts
        _layer(self._dense, seen, hidden)
        largest[:], mean[:] = self._pooled(inputs.keypoints, buffers)
        scalars[:] = inputs.scalars
        seen = buffers.joined
        for weight, output in zip(self._trunk, buffers.trunk, strict=True):
            _layer(weight, seen, output[:-1])
            seen = output
        return np.ascontiguousarray((self._head @ seen).T)

    def _pooled(self, keypoints: Floats, buffers: _LayerBuffers) -> tuple[Floats, Floats]:
        """Largest and mean activations (width, B) of the keypoints; 0 where there are none."""
        rows, count = torch.from_numpy(keypoints), buffers.joined.shape[1]
        if len(rows) == 0:
            nothing = np.zeros((self._config.keypoint_hidden, count), np.float32)
            return nothing, nothing
        for (bias, weight), output in zip(self._points, buffers.points, strict=True):
            rows = torch.addmm(bias, rows, weight, out=torch.from_numpy(output[: len(rows)])).relu_()
        rows = rows.view(count, -1, rows.shape[1])
        return rows.amax(dim=1).numpy().T, rows.mean(dim=1).numpy().T


def action_logits(networks: Sequence[FastNetwork], view: ObjectView, grasps: Floats) -> Floats:
    """Logits (B, ACTIONS) of grasps (B, 5), the mean over the networks."""
    largest = _SIZES[-1]
    parts = [_batch_logits(networks, view, grasps[i : i + largest]) for i in range(0, len(grasps), largest)]
    return np.concatenate(parts) if parts else np.zeros((0, ACTIONS), np.float32)


def _batch_logits(networks: Sequence[FastNetwork], view: ObjectView, grasps: Floats) -> Floats:
    """The same of at most the largest batch."""
    size = next(size for size in _SIZES if size >= len(grasps))
    padded = np.zeros((size, 5), np.float32)
    padded[: len(grasps)] = grasps
    inputs = view.inputs(padded)
    logits = networks[0].logits(inputs)
    for network in networks[1:]:
        logits += network.logits(inputs)
    logits /= np.float32(len(networks))
    return logits[: len(grasps)]


class _InputBuffers:
    """Buffers of :class:`ObjectView` for one batch size."""

    def __init__(self, size: int) -> None:
        self.cells = np.empty((2, size, _SAMPLES + 1), np.float32)
        self.heights = np.zeros((HEIGHT_CHANNELS * _SAMPLES + 1, size), np.float32)
        self.channels = self.heights[:-1].reshape(HEIGHT_CHANNELS, _SAMPLES, size)
        self.terms = np.ones((size, _TERMS), np.float32)
        self.scalars = np.empty((SCALARS, size), np.float32)


class _LayerBuffers:
    """Buffers of :class:`FastNetwork` for one batch size; inputs of layers end in rows of 1 for the bias."""

    def __init__(self, size: int, config: NetworkConfig) -> None:
        (first, second), width, hidden = config.channels, config.keypoint_hidden, config.hidden
        shapes = (HEIGHT_CHANNELS, GRID_ACROSS, GRID_ALONG, 4), (first, GRID_ACROSS // 2, GRID_ALONG // 2, 3)
        self.gathers = [_patches(*shape) for shape in shapes]
        places = [_SAMPLES // 4, _SAMPLES // 16]
        self.patches = [
            np.ones((len(gather) + count, size), np.float32) for gather, count in zip(self.gathers, places, strict=True)
        ]
        self.convolved = [
            np.zeros((first * places[0] + 1, size), np.float32),  # the next convolution's border
            np.ones((second * places[1] + 1, size), np.float32),
        ]
        self.points = [np.empty((size * TOTAL_ROWS, width), np.float32) for _ in range(2)]
        self.joined = np.ones((hidden + 2 * width + SCALARS + 1, size), np.float32)
        self.parts = np.split(self.joined[:-1], np.cumsum([hidden, width, width]))
        self.trunk = [np.ones((hidden + 1, size), np.float32) for _ in range(2)]


class _Made(threading.local):
    """Buffers of this thread by how they were made."""

    def __init__(self) -> None:
        self.buffers: dict[Any, Any] = {}


_made = _Made()
_T = TypeVar("_T")


def _made_once(make: Callable[..., _T], *arguments: Hashable) -> _T:
    """What ``make(*arguments)`` gave at this thread's first call."""
    key = (make, *arguments)
    if key not in _made.buffers:
        _made.buffers[key] = make(*arguments)
    result: _T = _made.buffers[key]
    return result


def _layer(weight: Floats, inputs: Floats, output: Floats) -> None:
    """Product and ReLU; torch's ReLU takes a fifth of NumPy's time."""
    np.matmul(weight, inputs, out=output)
    torch.from_numpy(output).relu_()


@lru_cache(maxsize=4)
def _patches(channels: int, height: int, width: int, kernel: int) -> NDArray[np.intp]:
    """Rows of a (channels · height · width + 1)-row table that a convolution with stride 2 and padding 1 sees.

    Sorted by weight (channel, row, column of the kernel), then by place; the border is the last row.
    """
    last = channels * height * width
    cells = torch.arange(1, last + 1, dtype=torch.float64).view(1, channels, height, width)
    patches = functional.unfold(cells, kernel, padding=1, stride=2).flatten().long() - 1
    return torch.where(patches < 0, last, patches).numpy()


@lru_cache(maxsize=1)
def _keypoint_map() -> Tensor:
    """(STORED + 1, _TERMS, _COLUMNS): columns as a bilinear form of a stored keypoint and 1, and of a grasp's terms."""
    x, y, z, normal_x, normal_y, radius, *kinds, one = range(STORED + 1)
    always, cos, sin, along, across, height, width = range(_TERMS)
    table = torch.zeros(STORED + 1, _TERMS, _COLUMNS)
    for column in (0, _OUTSIDE):
        table[x, cos, column] = table[y, sin, column] = 1 / LENGTH
        table[one, along, column] = -1 / LENGTH
    table[y, cos, 1], table[x, sin, 1], table[one, across, 1] = 1 / LENGTH, -1 / LENGTH, -1 / LENGTH
    table[z, always, 2], table[one, height, 2] = 1 / HEIGHT, -1 / HEIGHT
    table[normal_x, cos, 3] = table[normal_y, sin, 3] = table[normal_y, cos, 4] = 1.0
    table[normal_x, sin, 4] = -1.0
    table[radius, always, 5], table[z, always, 7] = 1 / HEIGHT, 1 / LENGTH
    for column, kind in enumerate(kinds, start=8):
        table[kind, always, column] = 1.0
    table[one, width, KEYPOINT_FEATURES] = 0.5 / LENGTH
    return table
