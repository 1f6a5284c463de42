"""Compiles the credit kernels for a GPU that isn't there: ``python compile_kernels.py 1024x16384 4096x512``.

Prints a line for each function, shape, layout and mask: bytes of machine code of each launch, and seconds. Tensors are
on the meta device, so that shapes of any size cost nothing. Ends with an error where the compiler refuses a kernel.
"""

import argparse
import itertools
import time

import torch
import triton
from credit_cases import FUNCTIONS, Case, call
from triton.backends.compiler import GPUTarget

from keygrasp.credit import heuristics, kernels, launch


class _AbsentGPU:
    """What Triton asks a driver for while it compiles."""

    def __init__(self, capability):
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


def meta_case(steps, rows, time_dim, *, actions=2, **options):
    shape = (steps, rows) if time_dim == 0 else (rows, steps)

    def made(dtype, *extra):
        return torch.empty(shape + extra, dtype=dtype, device="meta")

    tensors = {name: made(torch.float32) for name in ("rewards", "values", "next", "cut", "log_probs", "behavior")}
    tensors |= {name: made(torch.float32, actions) for name in ("next_q", "probs")}
    tensors |= {name: made(torch.bool) for name in ("terminated", "truncated", "mask")}
    tensors["last"] = torch.empty(rows, device="meta")
    return Case(time_dim, tensors, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="+", metavar="STEPSxROWS")
    parser.add_argument("--functions", nargs="+", default=FUNCTIONS)
    parser.add_argument("--masked", nargs="+", type=int, default=(0, 1))
    parser.add_argument("--chained", action="store_true", help="split sequences in one launch that looks back")
    parser.add_argument("--capability", type=int, default=90)
    options = parser.parse_args()
    triton.runtime.driver.set_active(_AbsentGPU(options.capability))
    heuristics.CHAINED = options.chained
    launch.INTERPRETED = True  # or the launcher wants CUDA tensors
    sizes = []

    def compile_only(planned, arguments):
        parts = arguments[-2]
        constants = (*planned.constants[:-1], int(parts > 1))  # parts overlap where kernels are not interpreted
        kernel = kernels.scan_kernel.warmup(*arguments, *constants, grid=planned.grid, num_warps=planned.warps)
        sizes.append(len(kernel.asm["cubin"]))

    launch._first_run = compile_only
    for shape, time_dim, masked in itertools.product(options.shapes, (0, 1), options.masked):
        steps, rows = map(int, shape.split("x"))
        for name in options.functions:
            start, before = time.perf_counter(), len(sizes)
            call(name, meta_case(steps, rows, time_dim, masked=bool(masked)), "triton")
            took = time.perf_counter() - start
            print(name, shape, f"time_dim={time_dim} masked={masked} {sizes[before:]} {took:.2f} s", flush=True)


if __name__ == "__main__":
    main()
