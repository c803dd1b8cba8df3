"""`Module`, the base of everything that has parameters.

MODULE-1: parameters, buffers and submodules are ordinary attributes (REGISTRY-1); their names are registered when they are
assigned. So a forward pass reads them without a detour.
MODULE-2: a call without hooks is one test and one call. There is no `__getattr__`: having one slows every attribute down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gt import _core
from gt._core import Tensor
from gt._grad_mode import no_grad
from gt.nn.modules._hooks import RemovableHandle, add_hook, call_with_hooks
from gt.nn.modules._state import StateMixin
from gt.nn.modules._walk import WalkMixin
from gt.nn.parameter import Buffer, Parameter


class Module(WalkMixin, StateMixin):
    """Base class of all layers and models: assign parameters and modules as attributes, and define `forward`.

    >>> class Scale(gt.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = gt.nn.Parameter(gt.tensor(2.0))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(gt.ones(2)).tolist()
    [2.0, 2.0]
    >>> [name for name, _ in Scale().named_parameters()]
    ['factor']
    """

    training: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got unexpected arguments: {len(args)} positional, keywords {list(kwargs)}"
            )
        own = self.__dict__
        own["training"] = True
        own["_parameter_names"] = {}
        own["_buffer_names"] = {}
        own["_module_names"] = {}
        own["_non_persistent_buffers_set"] = set()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a call of the module computes. Subclasses define it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tables = self._hook_tables
        if tables is not None and tables.on_call:
            return call_with_hooks(self, tables, args, kwargs)
        return self.forward(*args, **kwargs)

    # Registration.

    def _check_new_name(self, kind: str, name: Any, names: str) -> None:
        if names not in self.__dict__:
            raise AttributeError(f"cannot assign {kind}s before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in self.__dict__[names] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; None keeps a place for one that is not there."""
        self._check_new_name("parameter", name, "_parameter_names")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{type(param).__name__}' object to parameter '{name}' (gt.nn.Parameter or None required)"
                )
            if not param.is_leaf:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly."
                )
        self._parameter_names[name] = None
        self.__dict__[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is part of the state but not trained; `persistent=False` keeps it out of `state_dict`."""
        self._check_new_name("buffer", name, "_buffer_names")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (gt.Tensor or None required)"
            )
        self._buffer_names[name] = None
        self.__dict__[name] = tensor
        if tensor is not None:
            tensor._mark_state()
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_new_name("module", name, "_module_names")
        self._module_names[name] = None
        self.__dict__[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """As `add_module`."""
        self.add_module(name, module)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "_parameter_names")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._forget(name, "_module_names")
            if "_module_names" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._module_names[name] = None
            own[name] = value
        elif isinstance(value, Buffer) and "_buffer_names" in own:
            self._forget(name, "_buffer_names")
            self.register_buffer(name, value, value.persistent)
        elif name in own.get("_parameter_names", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as parameter '{name}' (gt.nn.Parameter or None expected)"
                )
            own[name] = None
        elif name in own.get("_buffer_names", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as buffer '{name}' (gt.Tensor or None expected)"
                )
            if value is not None:
                value._mark_state()
            own[name] = value
        elif name in own.get("_module_names", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as child module '{name}' (gt.nn.Module or None expected)"
                )
            own[name] = None
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, keep: str) -> None:
        """A name that becomes a member of one kind is none of another, and not a plain attribute any more."""
        own = self.__dict__
        for names in ("_parameter_names", "_buffer_names", "_module_names"):
            if names != keep and name in own.get(names, ()):
                del own[names][name]
                own.pop(name, None)
        if name not in own.get(keep, ()):
            own.pop(name, None)
        if keep != "_buffer_names" and "_non_persistent_buffers_set" in own:
            own["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        own = self.__dict__
        for names in (own["_parameter_names"], own["_buffer_names"], own["_module_names"]):
            names.pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)
        object.__delattr__(self, name)

    # Changing every tensor.

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:
        """Makes every parameter, gradient and buffer what `fn` makes of it; parameters stay the objects they are."""
        # What a name stood for is kept, so that its id is not given to another meanwhile.
        changed: dict[int, tuple[Tensor, Tensor]] = {}
        modules = self.modules() if recurse else (self,)
        with no_grad():
            for module in modules:
                own = module.__dict__
                for name in module._parameter_names:
                    parameter = own[name]
                    if parameter is not None and id(parameter) not in changed:
                        changed[id(parameter)] = (parameter, parameter)
                        _changed_parameter(parameter, fn)
                for name in module._buffer_names:
                    old = own[name]
                    if old is not None:
                        if id(old) not in changed:
                            changed[id(old)] = (old, _changed_buffer(old, fn))
                        own[name] = changed[id(old)][1]
        return self

    def apply(self, fn: Callable[[Module], None]) -> Module:
        """Calls `fn` with every module below this one, then with this one: for initialisation.

        >>> _ = gt.nn.Sequential(gt.nn.ReLU()).apply(lambda m: print(type(m).__name__))
        ReLU
        Sequential
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """Moves parameters and buffers to a device, and the floats among them to a dtype."""
        probe = _core.empty(0).to(*args, **kwargs)
        dtype_wanted = _names_a_dtype(args, kwargs)
        if dtype_wanted and not probe.dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={probe.dtype}")

        def convert(tensor: Tensor) -> Tensor:
            if not dtype_wanted or tensor.is_floating_point():
                return tensor.to(*args, **kwargs)
            return tensor.to(probe.device)

        return self._apply(convert)

    def type(self, dst_type: Any) -> Module:
        """Casts every parameter and buffer."""
        return self._apply(lambda t: t.type(dst_type))

    def _to_float(self, dtype: Any) -> Module:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Module:
        """Casts floats to float32."""
        return self._to_float(_core.float32)

    def double(self) -> Module:
        """Casts floats to float64."""
        return self._to_float(_core.float64)

    def half(self) -> Module:
        """Casts floats to float16."""
        return self._to_float(_core.float16)

    def bfloat16(self) -> Module:
        """Casts floats to bfloat16."""
        return self._to_float(_core.bfloat16)

    def cpu(self) -> Module:
        """Asks parameters and buffers to be on the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Module:
        """Asks parameters and buffers to be on a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Any = None, recurse: bool = True) -> Module:
        """New, unwritten parameters and buffers on a device."""
        return self._apply(lambda t: _core.empty_like(t, device=device), recurse)

    def share_memory(self) -> Module:
        """The module itself: processes share tensors through a server, not through memory."""
        return self

    # Modes.

    def train(self, mode: bool = True) -> Module:
        """Switches to training, or to evaluation with `mode=False`."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Module:
        """Switches to evaluation: dropout stands still, batch norm uses its running statistics."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Freezes or unfreezes every parameter."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets all gradients; with `set_to_none=False` they become zero."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = _core.zeros_like(parameter.grad)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: GT compiles what repeats by itself."""

    # Hooks.

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` before `forward`; what it returns replaces the arguments."""
        tables = self._hooks()
        return add_hook(tables.forward_pre, hook, prepend, (tables.takes_kwargs,) if with_kwargs else ())

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls `hook(module, args, output)` after `forward`; what it returns replaces the output."""
        tables = self._hooks()
        options = [tables.takes_kwargs] if with_kwargs else []
        return add_hook(tables.forward, hook, prepend, (*options, *([tables.always] if always_call else [])))

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_output)` when gradients reach the module; what it returns replaces them."""
        return add_hook(self._hooks().backward_pre, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` when gradients leave; what it returns replaces grad_input."""
        return add_hook(self._hooks().backward, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As `register_full_backward_hook`."""
        return self.register_full_backward_hook(hook)

    # Printing.

    def extra_repr(self) -> str:
        """What a subclass wants printed between its parentheses."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indented(repr(module))}" for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        body = "\n  ".join([*lines, *children])
        return f"{self._get_name()}(\n  {body}\n)"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _names_a_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments of `to` say a dtype, by itself or by a tensor to be like."""
    return kwargs.get("dtype") is not None or any(isinstance(a, (_core.dtype, Tensor)) for a in args)


def _changed_parameter(parameter: Parameter, fn: Callable[[Tensor], Tensor]) -> None:
    """Changes a parameter in its place: an optimizer that holds it goes on training it."""
    data = parameter.detach()
    new = fn(data)
    if new is not data:
        # An alias less, so that the old elements are freed with the assignment.
        del data
        parameter.data = new
        if parameter.grad is not None:
            parameter.grad.data = fn(parameter.grad.detach())


def _changed_buffer(old: Tensor, fn: Callable[[Tensor], Tensor]) -> Tensor:
    new = fn(old)
    if new is old:
        return old
    new._mark_state()
    return Buffer(new, persistent=old.persistent) if isinstance(old, Buffer) else new
