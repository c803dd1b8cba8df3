"""Equations, determinants and factors of matrices, and old names of tensors."""

# Programs are one line each, however long.
CASES = r"""
A = T.tensor([[2., 1.], [.5, 3.]]); r = T.linalg.det(A), T.linalg.slogdet(A), T.linalg.inv(A), T.linalg.solve(A, A[0]), T.linalg.solve(A, A), T.linalg.solve(A, A, left=False), A.inverse(), A.det(), A.logdet(), T.linalg.matrix_power(A, -2)
A = T.tensor([[0., 1., 2.], [3., 4., 5.], [6., 7., 9.]]); r = T.linalg.det(A), T.linalg.inv(A), T.linalg.qr(A), T.linalg.qr(A, mode="complete"), T.linalg.qr(A[:, :2]), T.linalg.qr(A[:2]), T.linalg.slogdet(-A)
A = T.arange(18.).view(2, 3, 3).sin() + T.eye(3) * 3; r = T.linalg.inv(A), T.linalg.det(A), T.linalg.solve(A, T.ones(2, 3)), T.linalg.solve(A, T.ones(3, 2)), T.linalg.qr(A).Q
A = T.tensor([[4., 1.], [1., 3.]]); r = T.linalg.cholesky(A), T.linalg.cholesky(A, upper=True), T.linalg.solve_triangular(A, A, upper=True), T.linalg.solve_triangular(A, A, upper=False, unitriangular=True), T.linalg.matrix_exp(A), T.matrix_exp(A)
A = T.tensor([[4., 1.], [1., 3.]], requires_grad=True); (T.linalg.inv(A) * T.arange(4.).view(2, 2)).sum().backward(); r = A.grad
A = T.tensor([[4., 1.], [1., 3.]], requires_grad=True); T.linalg.det(A).backward(); r = A.grad
A = T.tensor([[4., 1.], [1., 3.]], requires_grad=True); T.logdet(A).backward(); r = A.grad
A = T.tensor([[4., 1.], [2., 3.]], requires_grad=True); B = T.tensor([1., 2.], requires_grad=True); T.linalg.solve(A, B).square().sum().backward(); r = A.grad, B.grad
A = T.tensor([[4., 1.], [1., 3.]], requires_grad=True); (T.linalg.qr(A).R * T.arange(4.).view(2, 2)).sum().backward(); r = A.grad
A = T.tensor([[4., 1.], [1., 3.]], requires_grad=True); g, = T.autograd.grad(T.linalg.inv(A).sum(), A, create_graph=True); h, = T.autograd.grad(g.square().sum(), A); r = g, h
r = T.linalg.inv(T.ones(2, 3))
r = T.linalg.inv(T.ones(3))
r = T.linalg.inv(T.ones(2, 2, dtype=T.int64))
r = T.linalg.det(T.zeros(2, 2)), T.linalg.slogdet(T.zeros(2, 2)), T.linalg.det(T.ones(0, 0))
r = T.linalg.qr(T.ones(2, 2), mode="foo")
r = T.linalg.solve(T.ones(2, 2), T.ones(3))
r = T.gradient(T.tensor([1., 4, 9, 20])), T.gradient(T.tensor([1., 4, 9, 20]), spacing=2.), T.gradient(T.tensor([1., 4, 9, 20]), edge_order=2), T.gradient(T.arange(9.).view(3, 3).square()), T.gradient(T.arange(9.).view(3, 3).square(), dim=1), T.gradient(T.tensor([1., 4, 9, 20]), spacing=(T.tensor([0., 1, 3, 4]),))
x = T.arange(6.); r = T.as_strided(x, (2, 2), (3, 1)), x.as_strided((3,), (2,)), x[1:].as_strided((2,), (1,)), T.as_strided(x, (3, 2), (1, 1), 1)
r = T.as_strided(T.arange(6.), (4, 2), (3, 1))
r = T.tensor([1.5, 2.5]).new([1, 2]), T.FloatTensor([1, 2]), T.LongTensor([1, 2]), T.LongTensor(2, 3).shape, T.DoubleTensor([1]), T.ByteTensor([1]), T.BoolTensor([1, 0]), T.HalfTensor([1.5]), isinstance(T.ones(1), T.FloatTensor), isinstance(T.ones(1), T.LongTensor), T.IntTensor(2).shape, T.FloatTensor().shape
r = T.tensor([1., 2.]).apply_(lambda v: v * 2), T.ones(1).share_memory_()
r = T.special.ndtri(T.tensor([.1, .5, .9])), T.special.multigammaln(T.tensor([3.]), 2)
r = T.repeat_interleave(T.tensor([1, 2])), T.repeat_interleave(T.tensor([0, 2, 0, 1]))
"""
