"""`python -m gt.server` serves sessions and workers, as `gt server` does."""

import sys

from gt._command import main

if __name__ == "__main__":
    main(["server", *sys.argv[1:]])
