"""NumPy on both sides: data in by one copy at the call, data out as arrays GT never touches again."""

import numpy as np
import pytest
from parity import check, data, name_of

import gt

NUMPY_DTYPES = ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool"]


@pytest.mark.transport
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3)], ids=str)
def test_round_trip(dtype, shape):
    values = data(*shape, dtype=dtype)
    back = gt.from_numpy(np.asarray(values)).numpy()
    assert back.dtype == np.dtype(dtype) and back.shape == shape
    np.testing.assert_array_equal(back, values)


@pytest.mark.transport
@pytest.mark.parametrize("dtype", ["uint16", "complex64", "datetime64[s]", "S3", "U3", "O"])
def test_dtypes_without_a_counterpart(dtype):
    with pytest.raises(TypeError):
        gt.from_numpy(np.zeros(2, dtype=dtype))


@pytest.mark.transport
def test_from_numpy_takes_arrays_only():
    with pytest.raises(TypeError):
        gt.from_numpy([1, 2])
    with pytest.raises(TypeError):
        gt.from_numpy(1.0)


@pytest.mark.transport
def test_from_numpy_copies_at_the_call():
    values = np.zeros(3)
    made = gt.from_numpy(values)
    values[:] = 9
    assert made.tolist() == [0, 0, 0]
    made.add_(1)
    assert values.tolist() == [9, 9, 9]


@pytest.mark.transport
def test_numpy_result_is_the_users():
    source = gt.zeros(3)
    out = source.numpy()
    source.add_(1)
    assert out.tolist() == [0, 0, 0]
    out[0] = 5
    assert source.tolist() == [1, 1, 1] and out.flags.writeable and out.flags.c_contiguous


@pytest.mark.transport
def test_numpy_of_views():
    base = gt.arange(12.0).reshape(3, 4)
    expected = np.arange(12.0, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(base.T.numpy(), expected.T)
    np.testing.assert_array_equal(base[:, ::2].numpy(), expected[:, ::2])
    np.testing.assert_array_equal(base[:1].expand(2, 4).numpy(), np.broadcast_to(expected[:1], (2, 4)))
    np.testing.assert_array_equal(base.diagonal().numpy(), expected.diagonal())


@pytest.mark.transport
def test_numpy_of_what_requires_grad_is_refused():
    source = gt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        source.numpy()
    with pytest.raises(RuntimeError):
        (source * 2).numpy()
    assert source.detach().numpy().tolist() == [1, 1] and source.data.numpy().tolist() == [1, 1]
    assert source.numpy(force=True).tolist() == [1, 1]
    with pytest.raises(RuntimeError):
        np.asarray(source)


@pytest.mark.transport
def test_bfloat16_has_no_numpy_dtype():
    with pytest.raises(TypeError):
        gt.ones(2, dtype=gt.bfloat16).numpy()
    assert gt.ones(2, dtype=gt.bfloat16).float().numpy().tolist() == [1, 1]


@pytest.mark.transport
def test_array_protocol():
    source = gt.tensor([[1.5, 2.5]])
    assert np.asarray(source).dtype == np.float32 and np.asarray(source).tolist() == [[1.5, 2.5]]
    assert np.array(source, dtype=np.float64).dtype == np.float64
    assert np.array(source).shape == (1, 2)
    assert np.sum(source.numpy()) == 4
    assert np.array([gt.tensor(1.0), gt.tensor(2.0)]).tolist() == [1, 2]
    assert np.mean(np.stack([gt.ones(2).numpy(), gt.zeros(2).numpy()])) == 0.5


@pytest.mark.transport
def test_numpy_functions_of_tensors():
    assert np.allclose(gt.ones(3), np.ones(3))
    np.testing.assert_allclose(gt.ones(3), [1, 1, 1])
    assert float(np.float64(gt.tensor(2.5))) == 2.5


@pytest.mark.transport
def test_arrays_in_expressions():
    source, values = gt.tensor([1.0, 2.0], dtype=gt.float64), np.array([3.0, 4.0])
    made = source + gt.from_numpy(values)
    check(made, [4, 6])
    assert name_of(gt.tensor(values).dtype) == "float64"


@pytest.mark.transport
@pytest.mark.parametrize("order", ["C", "F"])
def test_orders(order):
    values = np.array(data(3, 4), order=order)
    check(gt.from_numpy(values), values)
    check(gt.tensor(values), values)
    check(gt.as_tensor(values), values)


@pytest.mark.transport
def test_negative_strides_are_copied_or_refused():
    values = np.arange(5.0)[::-1]
    try:
        made = gt.from_numpy(values)
    except ValueError:
        return
    check(made, values)


@pytest.mark.transport
def test_readonly_arrays():
    values = np.arange(3.0)
    values.flags.writeable = False
    made = gt.tensor(values)
    made.add_(1)
    assert made.tolist() == [1, 2, 3] and values.tolist() == [0, 1, 2]


@pytest.mark.transport
def test_structured_use_of_tolist_and_iteration():
    source = gt.arange(6).reshape(2, 3)
    assert source.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [int(v) for v in source[1]] == [3, 4, 5]
    assert sum(source[0]).item() == 3
    assert max(source[0]).item() == 2


# --- dlpack ----------------------------------------------------------------------------------------------------------


@pytest.mark.transport
@pytest.mark.parametrize("dtype", [d for d in NUMPY_DTYPES if d != "bool"])
def test_dlpack_to_numpy(dtype):
    values = data(3, 4, dtype=dtype)
    np.testing.assert_array_equal(np.from_dlpack(gt.tensor(values)), values)


@pytest.mark.transport
def test_dlpack_from_numpy():
    values = data(3, 4)
    check(gt.from_dlpack(values), values)
    check(gt.from_dlpack(values[:, ::2]), values[:, ::2])
    check(gt.from_dlpack(values.T), values.T)


@pytest.mark.transport
def test_dlpack_round_trip_and_device():
    source = gt.arange(6.0).reshape(2, 3)
    check(gt.from_dlpack(source), np.arange(6.0).reshape(2, 3))
    kind, index = source.__dlpack_device__()
    assert int(kind) == 1 and index == 0
    check(gt.from_dlpack(source.T), np.arange(6.0).reshape(2, 3).T)


@pytest.mark.transport
def test_dlpack_outlives_the_tensor():
    source = gt.arange(1000.0)
    shared = np.from_dlpack(source)
    del source
    junk = [gt.full((1000,), 7.0) for _ in range(20)]
    gt.synchronize()
    np.testing.assert_array_equal(shared, np.arange(1000.0))
    del junk


@pytest.mark.transport
def test_dlpack_of_what_requires_grad_is_refused():
    with pytest.raises((RuntimeError, BufferError)):
        gt.ones(2, requires_grad=True).__dlpack__()


@pytest.mark.transport
def test_a_write_after_export_does_not_tear():
    source = gt.zeros(1000)
    shared = np.from_dlpack(source)
    source.add_(1)
    gt.synchronize()
    assert set(shared.tolist()) in ({0.0}, {1.0}) and source.sum().item() == 1000


# --- NumPy is not loaded until it is needed --------------------------------------------------------------------------


def test_import_and_arithmetic_do_not_load_numpy():
    import subprocess
    import sys

    program = (
        "import sys, gt; x = gt.ones(3) + gt.tensor([1., 2., 3.]); assert x.sum().item() == 9; x.tolist(); repr(x);"
        "assert 'numpy' not in sys.modules; x.numpy(); assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.transport
def test_functions_of_numpy_give_tensors():
    x = gt.tensor([1.0, 4.0])
    for made in (np.sqrt(x), np.add(x, 1), np.maximum(np.zeros(2, np.float32), x)):
        assert isinstance(made, gt.Tensor) and made.dtype == gt.float32
    assert np.sqrt(x).tolist() == [1, 2]
    assert np.isnan(x).dtype == gt.uint8
