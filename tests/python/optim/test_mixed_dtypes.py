"""A group may hold parameters of several dtypes."""

import pytest

import gt


@pytest.mark.parametrize("first, second", [("float32", "float64"), ("float64", "float32"), ("float32", "bfloat16")])
@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adagrad", "RMSprop"])
def test_every_parameter_is_updated_in_its_own_dtype(name, first, second):
    def train(dtypes):
        parameters = [gt.full((n,), 2.0, dtype=getattr(gt, dtype), requires_grad=True) for n, dtype in dtypes]
        optimizer = getattr(gt.optim, name)(parameters, lr=0.125)
        for _ in range(3):
            for parameter in parameters:
                parameter.grad = gt.full_like(parameter, 0.5).detach()
            optimizer.step()
        return [(p.dtype, p.tolist()) for p in parameters]

    together = train([(300, first), (7, second), (33, first)])
    apart = train([(300, first)]) + train([(7, second)]) + train([(33, first)])
    assert together == apart
