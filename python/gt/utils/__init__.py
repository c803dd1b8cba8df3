"""What training code needs beside tensors: `gt.utils.checkpoint` trades time for memory."""

from gt.utils import checkpoint

__all__ = ["checkpoint"]
