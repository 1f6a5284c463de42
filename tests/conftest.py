"""What all tests share."""

import os
import random
import signal

from hypothesis import settings

# Where a shell without job control starts the tests in the background, they ignore Ctrl-C, and so would every process
# that they start. A handler, unlike being ignored, isn't inherited: tests that interrupt a process then can.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: Seed of a run that looks for faults which the usual one may never meet: KEYGRASP_EXPLORE=7 make test
EXPLORE = os.environ.get("KEYGRASP_EXPLORE", "")

# The same examples of property tests in every run, so that a change is judged by what it changes; else other ones.
settings.register_profile("repeatable", derandomize=True, database=None)
settings.load_profile("default" if EXPLORE else "repeatable")


def pytest_collection_modifyitems(items):
    """Exploring, take the files in another order: a test may leave something behind that fails a later one."""
    if EXPLORE:
        items.sort(key=lambda item: random.Random(f"{EXPLORE} {item.path}").random())
