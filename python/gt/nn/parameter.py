"""Tensors that a module owns: parameters, which are trained, and buffers, which are only stored."""

from __future__ import annotations

from typing import Any

from gt._core import Tensor, empty


def _storage_for(data: Any) -> Any:
    """What the tensor's constructor takes: nothing is an empty tensor, as PyTorch's `Parameter()`."""
    return 0 if data is None else data


class Parameter(Tensor):
    """A tensor that a module registers when it is assigned as an attribute, and that collects gradients.

    It shares the elements of `data`. Results of operations on it are plain tensors.

    >>> p = gt.nn.Parameter(gt.ones(2))
    >>> p
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    >>> isinstance(p, gt.Tensor)
    True
    """

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        self = Tensor.__new__(cls, _storage_for(data))  # type: ignore[call-arg]
        if requires_grad:
            self.requires_grad_(True)
        else:
            self._mark_state()
        return self

    def __repr__(self) -> str:
        return f"Parameter containing:\n{self.detach().requires_grad_(self.requires_grad)!r}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        key = id(self)
        if key in memo:
            return memo[key]  # type: ignore[no-any-return]
        made = type(self)(self.detach().clone(), self.requires_grad)
        made.__dict__.update(self.__dict__)
        memo[key] = made
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild_parameter, (type(self), self.detach(), self.requires_grad, self.__dict__)


class Buffer(Tensor):
    """A tensor that a module registers as a buffer when it is assigned: part of its state, but not trained.

    >>> class Counter(gt.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.count = gt.nn.Buffer(gt.zeros(1))
    >>> list(Counter().state_dict())
    ['count']
    """

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        self = Tensor.__new__(cls, _storage_for(data))  # type: ignore[call-arg]
        self.persistent = persistent
        self._mark_state()
        return self

    def __repr__(self) -> str:
        return repr(self.detach())

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        key = id(self)
        if key not in memo:
            memo[key] = type(self)(self.detach().clone(), persistent=self.persistent)
        return memo[key]  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild_buffer, (type(self), self.detach(), self.persistent)


def _rebuild_parameter(
    cls: type[Parameter], data: Tensor, requires_grad: bool, attributes: dict[str, Any]
) -> Parameter:
    made = cls(data, requires_grad)
    made.__dict__.update(attributes)
    return made


def _rebuild_buffer(cls: type[Buffer], data: Tensor, persistent: bool) -> Buffer:
    return cls(data, persistent=persistent)


class UninitializedParameter(Parameter):
    """The parameter of a lazy layer before its first input: it has no shape and no elements.

    >>> gt.nn.LazyLinear(2).weight
    <UninitializedParameter>
    """

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return Parameter.__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, None, self.dtype)


class UninitializedBuffer(Buffer):
    """The buffer of a lazy layer before its first input.

    >>> gt.nn.LazyBatchNorm1d().running_mean
    <UninitializedBuffer>
    """

    def __new__(cls, device: Any = None, dtype: Any = None, *, persistent: bool = True) -> UninitializedBuffer:
        return Buffer.__new__(cls, empty(0, device=device, dtype=dtype), persistent=persistent)  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.device, self.dtype, persistent=self.persistent)
        return memo[id(self)]  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (None, self.dtype)


def is_lazy(param: Any) -> bool:
    """Whether a tensor of a lazy layer waits for the first input.

    >>> gt.nn.parameter.is_lazy(gt.nn.LazyLinear(2).weight)
    True
    """
    return isinstance(param, (UninitializedParameter, UninitializedBuffer))
