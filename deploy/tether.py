"""Become another program that the kernel kills when the process that started it dies, however that happens.

Run as `python -I -S tether.py PARENT_PID COMMAND…`: exec keeps the process id, so the id shown is the program's.
Linux only; elsewhere it is a plain exec, and what a killed launcher left behind is found by the next `up` or `down`.
"""

import ctypes
import os
import signal
import sys

# From <sys/prctl.h>. The kernel sends the signal when the *thread* that forked ends, so tether from the main thread.
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, then become the command."""
    parent_pid, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the line above: then no signal will come.
    if os.getppid() != parent_pid:
        sys.exit("The process that started this one is gone.")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
