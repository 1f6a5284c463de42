"""What all tests share."""

import os
import signal

from hypothesis import settings

# Where a shell without job control starts the tests in the background, they ignore Ctrl-C, and so would every process
# that they start. A handler, unlike being ignored, isn't inherited: tests that interrupt a process then can.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a change is judged by what it changes; other ones to look for faults:
# KEYGRASP_EXPLORE=1 make test
settings.register_profile("repeatable", derandomize=True, database=None)
settings.load_profile("default" if os.environ.get("KEYGRASP_EXPLORE") else "repeatable")
