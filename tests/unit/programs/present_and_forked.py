"""A process that shows its presence in a folder and forks: `present_and_forked.py FOLDER`.

It prints device, inode and the pid of its fork, which closes what it inherited and lives on until its input ends.
"""

import os
import signal
import sys
from pathlib import Path

from redrive.presence import Presence

presence = Presence(Path(sys.argv[1]), "worker-1")
fork = os.fork()
if fork == 0:
    presence.close()
    sys.stdin.read()
    os._exit(0)
print(presence.device, presence.inode, fork, flush=True)
signal.pause()
