"""`python -m gt.worker` serves a device of this machine, as `gt worker` does."""

import sys

from gt._command import main

if __name__ == "__main__":
    main(["worker", *sys.argv[1:]])
