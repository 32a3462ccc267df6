"""What holds for all tests."""

import signal

# A shell that starts tests in the background lets them ignore Ctrl-C, and what they start as well.
signal.signal(signal.SIGINT, signal.default_int_handler)
