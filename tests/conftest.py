"""Settings of all tests."""

import signal

from hypothesis import settings

# A shell that starts tests in the background makes them, and what they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# An example may take long where a loop is compiled or the machine is busy.
settings.register_profile("mdpdsl", deadline=None)
settings.load_profile("mdpdsl")
