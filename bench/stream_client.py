"""One contender of the rows about the stream: a process with a session of its own, which does as it is told.

A process has one session, so embedded and connected cannot be measured in the same one. Which of the two this is,
`GT_ADDRESS` says. Each line of stdin is a command in JSON, each line of stdout its answer; it ends with its stdin.

Usage: stream_client.py train SIZE | stream_client.py upload BYTES
"""

import gc
import json
import sys
import time

import numpy as np

clock = time.perf_counter
WARM_UP = 15


def trips(gt):
    """Round trips so far."""
    return sum(stats["round_trips"] for stats in gt.debug.get_worker_stats().values())


class Train:
    """Trains Qwen3."""

    def __init__(self, gt, size):
        import qwen3

        self.gt, self.training = gt, qwen3.Training(gt, qwen3.SIZES[size])
        self.losses = [self.training.step() for _ in range(WARM_UP)]

    def start(self):
        """What is said once it is ready."""
        return {"losses": self.losses}

    def steps(self, count):
        """Seconds for one of so many steps."""
        begin = clock()
        for _ in range(count):
            self.training.step()
        self.gt.synchronize()
        return {"seconds": (clock() - begin) / count}

    def trips(self, count):
        """Round trips of one of so many steps."""
        before = trips(self.gt)
        for _ in range(count):
            self.training.step()
        return {"trips": (trips(self.gt) - before) / count}


class Upload:
    """Sends an array to the worker, and copies it for comparison."""

    def __init__(self, gt, size_bytes):
        self.gt = gt
        # Written to, so that every page of it is there.
        self.array = np.arange(int(size_bytes) // 4, dtype=np.float32)

    def start(self):
        """What is said once it is ready."""
        return {"bytes": self.array.nbytes}

    def upload(self):
        """Seconds until the worker has it."""
        begin = clock()
        tensor = self.gt.from_numpy(self.array)
        self.gt.synchronize()
        seconds = clock() - begin
        wrong = tensor[-1].item() != self.array[-1]
        del tensor
        self.gt.synchronize()
        return {"seconds": seconds} if not wrong else {"error": "the worker has something else"}

    def memcpy(self):
        """Seconds of a copy into fresh pages: what NumPy does, which asks for huge pages."""
        begin = clock()
        copied = self.array.copy()
        seconds = clock() - begin
        del copied
        return {"seconds": seconds}


def main():
    import gt

    kind = {"train": Train, "upload": Upload}[sys.argv[1]](gt, sys.argv[2])
    print(json.dumps(kind.start()), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        gc.collect()
        gc.disable()
        answer = getattr(kind, command.pop("do"))(**command)
        gc.enable()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
