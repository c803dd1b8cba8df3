"""Configs: what loads, what is an error and where, and what a program gets back."""

import re
import textwrap

import pytest
from isolated import run

import gt


@pytest.fixture
def write(tmp_path):
    def written(text, name="signals.yaml"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return written


def test_a_file_and_what_it_says(write):
    gt.load_config(
        write("""
        stage_1:
          shard: {axis: 0, workers: [0]}
          backward: stage_1_backward
          compile: true
        stage_1_backward:
          replicated: true
        """)
    )
    stage = gt.get_signal_config("stage_1")
    assert stage == gt.SignalConfig(gt.ShardConfig(0, [0]), backward_signal="stage_1_backward", compile=True)
    assert gt.get_config()["stage_1_backward"] == gt.SignalConfig(replicated=True)


# As users write them: one strategy each.
STRATEGIES = {
    "hot_path": "hot_path:\n  shard:\n    axis: 0\n    workers: [0, 1, 2, 3]\n  compile: true  # a boundary\n",
    "data_parallel": "data_parallel:\n  shard:\n    axis: 0              # Batch dimension\n    workers: [0, 1, 2, 3]\n",
    "model_parallel": "model_parallel:\n  shard:\n    axis: 1              # Feature dimension\n    workers: [0, 1]\n",
    "stage_1": """
stage_1:
  shard:
    axis: 0
    workers: [0, 1]
  backward: stage_1_backward

stage_2:
  shard:
    axis: 0
    workers: [2, 3]
  backward: stage_2_backward
""",
}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_strategies_load_and_train_on_any_group(name, workers, write):
    program = f"""
    import gt
    gt.gpu_workers({workers})
    gt.manual_seed(0)
    first, second = gt.nn.Linear(6, 8), gt.nn.Linear(8, 2)
    opt = gt.optim.Adam([*first.parameters(), *second.parameters()], lr=0.05)
    x, y = gt.randn(8, 6), gt.randn(8, 2)
    for _ in range(4):
        with gt.signal.context("{name}"):
            h = first(x).tanh()
        with gt.signal.context("{"stage_2" if name == "stage_1" else name}"):
            loss = (second(h) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())
    """
    together = float(run(program, GT_CONFIG=write(STRATEGIES[name])).stdout)
    assert together == pytest.approx(_alone(program.replace(f"gt.gpu_workers({workers})", "")), abs=1e-5)


_LOSSES = []


def _alone(program):
    """The loss of the program without a config: its signals mean nothing then, so one run does for all of them."""
    if not _LOSSES:
        _LOSSES.append(float(run(program).stdout))
    return _LOSSES[0]


def test_loading_again_replaces_the_file_but_not_what_was_registered(write):
    gt.register_config("registered", gt.SignalConfig(replicated=True))
    gt.load_config(write("first: {compile: true}"))
    gt.load_config(write("second: {compile: true}"))
    names = gt.get_config().keys()
    assert "second" in names and "registered" in names and "first" not in names


def test_a_malformed_file_says_where_and_changes_nothing(write):
    gt.load_config(write("kept: {compile: true}"))
    wrong = write("a:\n  shard: {axis: 0, workers: [0, -1]}\n", "wrong.yaml")
    with pytest.raises(ValueError, match=r"wrong\.yaml:2:33: .*index.*-1"):
        gt.load_config(wrong)
    assert "kept" in gt.get_config() and "a" not in gt.get_config()
    with pytest.raises(FileNotFoundError):
        gt.load_config(wrong.parent / "missing.yaml")


@pytest.mark.parametrize(
    "config, message",
    [
        ({"shard": gt.ShardConfig(axis=-1)}, "axis must be between 0"),
        ({"shard": gt.ShardConfig(axis=0, workers=[0, 0])}, "listed twice"),
        ({"shard": gt.ShardConfig(axis=0, workers=[-1])}, "index must be between 0"),
        ({"shard": gt.ShardConfig(axis=0, workers=0)}, "number of workers must be between 1 and"),
        ({"shard": gt.ShardConfig(axis=0, workers=[])}, "empty"),
        ({"shard": [gt.ShardConfig(0, 1), gt.ShardConfig(0, 1)]}, "sharded twice"),
        ({"shard": gt.ShardConfig(axis=0), "replicated": True}, "not both"),
        ({"workers": [0]}, "`workers` also needs `shard`"),
    ],
)
def test_wrong_configs(config, message):
    with pytest.raises(ValueError, match=message):
        gt.register_config("wrong", gt.SignalConfig(**config))
    assert gt.get_signal_config("wrong") is None


def test_wrong_types():
    for workers in ("worker_0", [True], [1.5]):
        with pytest.raises(TypeError):
            gt.register_config("wrong", gt.SignalConfig(gt.ShardConfig(0, workers)))
    with pytest.raises(ValueError, match="needs a name"):
        gt.register_config("", gt.SignalConfig(compile=True))


def test_what_is_registered_comes_back():
    configs = [
        gt.SignalConfig(gt.ShardConfig(1, ["worker_0"])),
        gt.SignalConfig(gt.ShardConfig(None, [0]), backward_signal="x"),
        gt.SignalConfig([gt.ShardConfig(0), gt.ShardConfig(1, 1)], compile=True),
        gt.SignalConfig(replicated=True, workers=[0]),
        gt.SignalConfig(compile=True),
    ]
    for config in configs:
        gt.register_config("again", config)
        assert gt.get_signal_config("again") == config


def test_the_file_of_the_variable_forms_the_group(write):
    path = write("""
    stage_1: {shard: {axis: 0, workers: [0, worker_1]}}
    stage_2: {shard: {axis: 0, workers: [2]}}
    """)
    program = """
    import gt
    print(sorted(gt.get_config()), gt._core.worker_count())
    with gt.signal.context("stage_1"):
        print(gt.ones(2).tolist(), gt._core.worker_count())
    print(gt.zeros(1, device="worker:2").device)
    """
    out = run(program, GT_CONFIG=path).stdout.split("\n")
    assert out[:3] == ["['stage_1', 'stage_2'] 1", "[1.0, 1.0] 3", "worker:2"]


def test_a_program_that_says_how_many_workers_it_wants_gets_those(write):
    path = write("stage_2: {shard: {axis: 0, workers: [3]}}")
    program = """
    import gt, warnings
    gt.gpu_workers(2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            with gt.signal.context("stage_2"):
                gt.ones(2).tolist()
    print(gt._core.worker_count(), len(said), said[0].message)
    """
    out = run(program, GT_CONFIG=path).stdout
    assert out.startswith("2 1 signal") and "(3; the session has 2)" in out and "unsharded" in out


def test_the_group_grows_when_a_config_asks_for_more():
    program = """
    import gt
    x = gt.arange(4.0)
    gt.register_config("two", gt.SignalConfig(gt.ShardConfig(0, [1])))
    print(gt._core.worker_count(), x.tolist())
    """
    assert run(program).stdout == "2 [0.0, 1.0, 2.0, 3.0]\n"


def test_wrong_variables(write):
    wrong = write("a: {shard: 1}")
    failed = run("import gt; gt.ones(1)", check=False, GT_CONFIG=wrong)
    assert failed.returncode == 1 and "GT_CONFIG" in failed.stderr and "signals.yaml:1:12" in failed.stderr
    failed = run("import gt; gt.ones(1)", check=False, GT_CONFIG=wrong.parent / "missing.yaml")
    assert failed.returncode == 1 and re.search(r"GT_CONFIG: cannot read .*missing\.yaml", failed.stderr)
    failed = run("import gt; gt.ones(1)", check=False, GT_AUTO_SHARD="perhaps")
    assert failed.returncode == 1 and "GT_AUTO_SHARD" in failed.stderr


@pytest.mark.parametrize(
    "scope, message",
    [
        ('"unknown"', "unknown"),
        ('"known", backward="neither"', "neither"),
        ('"far"', "9"),
    ],
)
def test_strict_configs(scope, message, write):
    path = write("known: {shard: {axis: 0}}\nfar: {shard: {axis: 0, workers: [0, 9]}}")
    program = f"""
    import gt
    gt.gpu_workers(1)
    try:
        with gt.signal.context({scope}):
            print("entered")
    except ValueError as e:
        print("refused", e)
    """
    out = run(program, GT_CONFIG=path, GT_STRICT_CONFIG=1).stdout
    assert out.startswith("refused") and message in out and "GT_STRICT_CONFIG" in out
    assert "entered" in run(program, GT_CONFIG=path).stdout


def test_strict_configs_refuse_tensors_with_too_few_dimensions(write):
    path = write("columns: {shard: {axis: 1}}\nwhole: {replicated: true}")
    program = """
    import gt
    def attempt(make):
        try:
            return list(make().shape)
        except ValueError as e:
            return str(e)
    x = gt.ones(4)
    with gt.signal.context("whole"):
        print(attempt(lambda: gt.ones(4)))
    with gt.signal.context("columns"):
        print(attempt(lambda: gt.ones(4, 2)), attempt(lambda: (gt.ones(4, 2) * 2).sum()))
        print(attempt(lambda: gt.randn(4)))
        print(attempt(lambda: gt.tensor([1.0, 2.0])))
    print(attempt(lambda: gt.signal.tensor(x, name="columns")))
    """
    allowed = run(program, GT_CONFIG=path).stdout.splitlines()
    assert allowed == ["[4]", "[4, 2] []", "[4]", "[2]", "[4]"]
    refused = run(program, GT_CONFIG=path, GT_STRICT_CONFIG=1).stdout.splitlines()
    assert refused[:2] == allowed[:2]
    for line in refused[2:]:
        assert "'columns' shards axis 1" in line.replace('"', "'") and "GT_STRICT_CONFIG" in line, line


def test_everything_is_under_a_scope_with_auto_shard():
    program = """
    import gt
    x = gt.ones(4, 2)
    print(gt._core.signal_name(gt._core.signal_scope()), (x @ x.T).sum().item())
    """
    assert run(program, GT_AUTO_SHARD=1).stdout == "auto 32.0\n"
    assert run(program).stdout == "None 32.0\n"


@pytest.mark.parametrize("operands", ["a @ a", "a @ b", "a.T @ a", "a @ a.T"])
def test_a_product_of_a_tensor_with_itself_was_computed_whole_on_every_worker(operands):
    program = f"""
    import gt
    gt.gpu_workers(2)
    def flops():
        gt.synchronize()
        return [stats["flops"] for _, stats in sorted(gt.debug.get_worker_stats().items())]
    a, b = gt.rand(400, 400), gt.rand(400, 400)
    before = flops()
    y = {operands}
    print(*(after - there for after, there in zip(flops(), before)))
    print(gt.allclose(y, gt.tensor(({operands.replace("a", "a.numpy()").replace("b", "b.numpy()")}))))
    """
    flops, is_right = run(program, GT_AUTO_SHARD=1).stdout.splitlines()
    whole = 2 * 400**3
    assert is_right == "True"
    assert all(0.4 * whole < int(n) < 0.6 * whole for n in flops.split()), f"{flops} of {whole}"
