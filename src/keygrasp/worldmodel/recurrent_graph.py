"""Gradients of the image model as a recorded CUDA graph: one launch instead of thousands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor, nn

from keygrasp.worldmodel.recurrent_data import Sequences
from keygrasp.worldmodel.recurrent_losses import Noise

#: Computes losses and leaves their gradients in the parameters' ``grad``.
Gradients = Callable[[Sequences, Noise], Tensor]
#: Runs before recording, in which libraries choose their algorithms and allocate what they need.
_RUNS_BEFORE = 3


def recorded(compute: Gradients, network: nn.Module, sequences: Sequences, noise: Noise) -> Gradients:
    """A function that does what ``compute`` does, by playing back what it did once on a GPU.

    The same operations on the same memory: each call copies its inputs there, and the gradients appear where they were
    when it was recorded. Nobody may set the parameters' ``grad`` to ``None`` after this.

    Args:
        compute: Must not wait for the device, nor draw random numbers.
        network: Whose gradients it leaves.
        sequences: Inputs of the shapes of all later calls, on the GPU.
        noise: The same.

    Raises:
        RuntimeError: If CUDA can't record it.
    """
    own_sequences, own_noise = Sequences(*_copies(sequences)), Noise(*_copies(noise))
    beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(_RUNS_BEFORE):
            network.zero_grad(set_to_none=True)
            compute(own_sequences, own_noise)
    torch.cuda.current_stream().wait_stream(beside)
    network.zero_grad(set_to_none=True)  # they are made anew in the graph's own memory
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        losses = compute(own_sequences, own_noise)

    def play(sequences: Sequences, noise: Noise) -> Tensor:
        for mine, new in ((own_sequences, sequences), (own_noise, noise)):
            for field in dataclasses.fields(mine):
                getattr(mine, field.name).copy_(getattr(new, field.name))
        graph.replay()
        return losses

    return play


def _copies(values: Sequences | Noise) -> list[Tensor]:
    return [getattr(values, field.name).clone() for field in dataclasses.fields(values)]
