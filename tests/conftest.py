"""What all tests share."""

import signal

# Where a shell without job control starts the tests in the background, they ignore Ctrl-C, and so would every process
# that they start. A handler, unlike being ignored, isn't inherited: tests that interrupt a process then can.
signal.signal(signal.SIGINT, signal.default_int_handler)
