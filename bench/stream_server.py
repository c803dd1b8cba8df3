"""A GT server with its workers as processes of their own, for the rows about the stream."""

import subprocess
import sys

STOP_S = 20


class Server:
    """`gt server` on a free port, until `close`."""

    def __init__(self, workers=1):
        command = [sys.executable, "-m", "gt", "server", "-p", "0", "--workers", str(workers)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # It says one line once it takes connections; an empty one means that it has ended.
        line = self.process.stdout.readline()
        if " ready at " not in line:
            raise RuntimeError(f"{' '.join(command)} did not start:\n{self.process.communicate()[1]}")
        self.address = line.split(" ready at ", 1)[1].split()[0]

    def close(self):
        """Ends it as Ctrl-C would."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
