"""The programs."""

import signal
import sys

# While `python -m binaries.NAME` imports, Ctrl-C ends it as the system does, without a traceback.
# From `exit_with` on, the program ends in order.
if sys.argv[0] == "-m" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
