"""The processes that take part in the rows about the stream, as their parent sees them."""

import json
import os
import subprocess
import sys
from pathlib import Path


class Contender:
    """A process of `stream_client.py`: started, asked, ended."""

    def __init__(self, *arguments, address="", variables=None):
        environment = {name: value for name, value in os.environ.items() if name != "GT_ADDRESS"}
        environment |= variables or {}
        if address:
            environment["GT_ADDRESS"] = address
        script = Path(__file__).with_name("stream_client.py")
        command = [sys.executable, str(script), *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def started(self):
        """Waits until it is ready, and gives what it says then."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended with {self.process.wait()}; what it says is above")
        return json.loads(line)

    def ask(self, do, **arguments):
        """Has it do something, and gives its answer."""
        self.process.stdin.write(json.dumps({"do": do} | arguments) + "\n")
        self.process.stdin.flush()
        answer = self.started()
        if "error" in answer:
            raise RuntimeError(f"{do}: {answer['error']}")
        return answer

    def seconds(self, do, **arguments):
        """How long it says that took."""
        return self.ask(do, **arguments)["seconds"]

    def close(self):
        """Ends it."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
