"""Without a GPU, the kernels run on Triton's interpreter, which has to be chosen before they are imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
