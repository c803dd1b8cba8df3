"""`python -m gt` is the `gt` command."""

from gt._command import main

if __name__ == "__main__":
    main()
