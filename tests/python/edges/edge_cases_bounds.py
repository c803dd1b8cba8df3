"""Dimensions that a 0-d tensor has not, and sizes beyond all bounds: the exception, or the answer."""

CASES = r"""
r = T.tensor(1.).movedim(0, 0), T.tensor(1.).movedim([0], [-1])
r = T.tensor(1.).movedim((0, -1), (0, -1))
r = T.tensor(1.).stride(0)
r = T.tensor(1.).unflatten(0, (1,))
r = T.tensor(1.).repeat_interleave(3, 0)
r = T.tensor(1.).repeat_interleave(3), T.tensor(1.).repeat_interleave(T.tensor([3]))
r = T.tensor(1.).repeat_interleave(T.tensor([3]), 0)
r = T.tensor(1.).repeat_interleave(T.tensor([1, 2]), 0)
r = T.take_along_dim(T.tensor(1.), T.tensor(0), 0)
r = T.take_along_dim(T.tensor(1.), T.tensor(0))
r = T.unique_consecutive(T.tensor(1.), dim=0)
r = T.unique(T.tensor(1.), dim=0)
r = T.ones(3, 3).diagonal(-2**63), T.ones(3, 3).diagonal(2**63 - 1), T.ones(3, 3).diagonal(7)
r = T.ones(3, 3).tril(2**63 - 1), T.ones(3, 3).tril(-2**63 + 1), T.ones(3, 3).triu(2**63 - 1)
r = T.ones(2).repeat(2**63 - 1)
r = T.ones(2, 2).repeat(2**62, 2)
r = T.ones(3).repeat_interleave(2**62)
r = len(T.ones(0).chunk(5)), T.ones(0).chunk(5)[0]
r = T.ones(3).chunk(-1)
r = T.ones(3).narrow(0, 1, 2**63 - 1)
"""
