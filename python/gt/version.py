"""What this build of GT is.

>>> gt.version.cuda is None
True
"""

from __future__ import annotations

__version__ = "0.1.0"
cuda: str | None = None
hip: str | None = None
debug = False
