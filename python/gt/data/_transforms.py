"""What happens to columns on their way into a batch: expressions that run in the loader's threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gt

__all__ = ["ColumnExpression", "col"]

_Step = tuple[str, float, float]
# Steps that make fractions of whole numbers.
_FRACTIONS = frozenset("div log log1p log10 exp sqrt sin cos tanh".split())


class ColumnExpression:
    """A column and what is done to each of its numbers, in float64, before it is written as the column's dtype; whole numbers of
    which it makes fractions become float32, as in PyTorch.

    Made with `gt.data.col`; given to `DataLoader(transforms=[…])`, which computes one after another: without `alias` an expression
    takes the column's place, and the next one of that column goes on with what it made.

    >>> (gt.data.col("time") / 1000 - 2).clip(-1, 1).alias("t")
    col('time').div(1000.0).add(-2.0).clip(-1.0, 1.0).alias('t')
    """

    def __init__(
        self, column: str, steps: tuple[_Step, ...] = (), name: str | None = None, dtype: gt.dtype | None = None
    ) -> None:
        self.column = column
        self.steps = steps
        self.name = name if name is not None else column
        self.dtype = dtype

    def _then(self, step: str, a: float = 0.0, b: float = 0.0) -> ColumnExpression:
        return ColumnExpression(self.column, (*self.steps, (step, float(a), float(b))), self.name, self.dtype)

    @property
    def makes_fractions(self) -> bool:
        """Whether whole numbers do not stay whole."""
        return any(step in _FRACTIONS or not (a.is_integer() and b.is_integer()) for step, a, b in self.steps)

    def then(self, other: ColumnExpression) -> ColumnExpression:
        """What another expression makes of this one's numbers.

        >>> (gt.data.col("x") + 1).then(gt.data.col("x") * 2)
        col('x').add(1.0).mul(2.0)
        """
        dtype = self.dtype if other.dtype is None else other.dtype
        return ColumnExpression(self.column, (*self.steps, *other.steps), other.name, dtype)

    def alias(self, name: str) -> ColumnExpression:
        """The same under another name, beside the column."""
        return ColumnExpression(self.column, self.steps, name, self.dtype)

    def to(self, dtype: gt.dtype) -> ColumnExpression:
        """The same as another dtype."""
        return ColumnExpression(self.column, self.steps, self.name, dtype)

    def clip(self, low: float, high: float) -> ColumnExpression:
        """Numbers below `low` become it, numbers above `high` become that."""
        return self._then("clip", low, high)

    def log(self) -> ColumnExpression:
        """The natural logarithm."""
        return self._then("log")

    def log1p(self) -> ColumnExpression:
        """The natural logarithm of one more."""
        return self._then("log1p")

    def log10(self) -> ColumnExpression:
        """The logarithm to base ten."""
        return self._then("log10")

    def exp(self) -> ColumnExpression:
        """The exponential."""
        return self._then("exp")

    def sqrt(self) -> ColumnExpression:
        """The square root."""
        return self._then("sqrt")

    def abs(self) -> ColumnExpression:
        """The absolute value."""
        return self._then("abs")

    def sin(self) -> ColumnExpression:
        """The sine."""
        return self._then("sin")

    def cos(self) -> ColumnExpression:
        """The cosine."""
        return self._then("cos")

    def tanh(self) -> ColumnExpression:
        """The hyperbolic tangent."""
        return self._then("tanh")

    def floor(self) -> ColumnExpression:
        """The next whole number below."""
        return self._then("floor")

    def round(self) -> ColumnExpression:
        """The nearest whole number, halves to even ones."""
        return self._then("round")

    def __add__(self, other: float) -> ColumnExpression:
        return self._then("add", other)

    __radd__ = __add__

    def __sub__(self, other: float) -> ColumnExpression:
        return self._then("add", -other)

    def __rsub__(self, other: float) -> ColumnExpression:
        return self._then("mul", -1)._then("add", other)

    def __mul__(self, other: float) -> ColumnExpression:
        return self._then("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> ColumnExpression:
        return self._then("div", other)

    def __rtruediv__(self, other: float) -> ColumnExpression:
        return self._then("pow", -1)._then("mul", other)

    def __pow__(self, other: float) -> ColumnExpression:
        return self._then("pow", other)

    def __neg__(self) -> ColumnExpression:
        return self._then("mul", -1)

    def __repr__(self) -> str:
        takes = {"clip": 2, "add": 1, "mul": 1, "div": 1, "pow": 1}
        steps = "".join(f".{s}({', '.join(map(repr, (a, b)[: takes.get(s, 0)]))})" for s, a, b in self.steps)
        dtype = "" if self.dtype is None else f".to({self.dtype})"
        alias = "" if self.name == self.column else f".alias({self.name!r})"
        return f"col({self.column!r}){steps}{dtype}{alias}"


def col(name: str) -> ColumnExpression:
    """A column by its name, to be changed on its way into a batch.

    >>> gt.data.col("charge").log10() * 0.5
    col('charge').log10().mul(0.5)
    """
    return ColumnExpression(name)
