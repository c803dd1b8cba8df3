"""`gt.data` where PyTorch has it, so that `from gt.utils.data import DataLoader` works.

>>> from gt.utils.data import DataLoader
>>> DataLoader is gt.data.DataLoader
True
"""

from gt.data import *  # noqa: F403
from gt.data import __all__ as __all__
from gt.data import open as open
