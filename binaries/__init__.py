"""The programs of this repository."""

import signal
import sys

# During the imports of `python -m binaries.NAME`, Ctrl-C ends it as the system does, without a
# traceback. From `exit_with` on, the program ends in order.
if sys.argv[0] == "-m" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
