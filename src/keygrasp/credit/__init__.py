"""Credit assignment for reinforcement learning: seven estimators, one linear recurrence, at the speed of memory.

Importing this package imports torch alone. The algebra and the boundary rules are in docs/credit.md.
"""

from keygrasp.credit.advantages import Advantages, Targets, gae, retrace, vtrace
from keygrasp.credit.call import Carry
from keygrasp.credit.returns import discounted_returns, eligibility_traces, episodic_prefix_sum, td_lambda_returns

__all__ = [
    "Advantages",
    "Carry",
    "Targets",
    "discounted_returns",
    "eligibility_traces",
    "episodic_prefix_sum",
    "gae",
    "retrace",
    "td_lambda_returns",
    "vtrace",
]
