"""One search per tensor: lazily, in order, on its own, nothing left out in silence."""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import permsearch as ps
from permsearch.errors import ScoresError, UnknownName, UnsupportedProblem
from permsearch.io import NothingEligible, open_tensors
from permsearch.io.source import TensorInfo
from permsearch.search_all import SearchOptions

STOP = ps.MaxSteps(20)


def weights(count: int = 3) -> dict[str, np.ndarray]:
    """Return a few small matrices, a convolution and a bias."""
    made = {f"w{n}": ps.instances.gaussian(12, 16, seed=n) for n in range(count)}
    return {
        **made,
        "conv": ps.instances.gaussian(6, 8 * 9, seed=9).reshape(6, 8, 3, 3),
        "b": np.ones(3),
    }


class Recorder:
    """A source that notes what is read."""

    where = "recorder"

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays
        self.reads: list[str] = []

    def names(self) -> tuple[str, ...]:
        """Return all names."""
        return tuple(self.arrays)

    def info(self, name: str) -> TensorInfo:
        """Return shape and type."""
        return TensorInfo(name, self.arrays[name].shape, "float64")

    def read(self, name: str) -> np.ndarray:
        """Note and return a tensor."""
        self.reads.append(name)
        return self.arrays[name]


def test_tensors_are_read_when_their_turn_comes() -> None:
    """Nothing is read before the first result is asked for, and then one tensor at a time."""
    source = Recorder(weights())
    run = ps.search_all(source, "2:4", solver="none")
    assert len(run) == 4
    assert source.reads == []
    assert next(run)[0] == "w0"
    assert source.reads == ["w0"]
    assert [name for name, _ in run] == ["w1", "w2", "conv"]


def test_results_equal_those_of_search() -> None:
    """A tensor's result is that of `search` alone, whichever others are searched."""
    arrays = weights()
    every = dict(ps.search_all(arrays, "2:4", solver="random", stop=STOP, seed=3))
    one = dict(ps.search_all(arrays, "2:4", only="w2", solver="random", stop=STOP, seed=3))
    alone = ps.search(arrays["w2"], "2:4", solver="random", stop=STOP, seed=3)
    for result in (every["w2"], one["w2"]):
        np.testing.assert_array_equal(result.cols, alone.cols)
    assert every["conv"].mask.shape == (6, 8, 3, 3)


def test_a_file_and_a_dict_give_the_same(tmp_path: Path) -> None:
    """Where tensors come from does not matter."""
    arrays = {name: array.astype(np.float32) for name, array in weights().items()}
    save_file(arrays, tmp_path / "w.safetensors")
    from_file = dict(ps.search_all(tmp_path / "w.safetensors", "2:4", solver="random", stop=STOP))
    from_dict = dict(ps.search_all(arrays, "2:4", solver="random", stop=STOP))
    assert from_file.keys() == from_dict.keys()
    for name, result in from_file.items():
        np.testing.assert_array_equal(result.cols, from_dict[name].cols)


def test_compiling_takes_no_tensors_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every new shape is compiled for before its search; limits in seconds are `solve`'s matter."""
    warmed: list[Any] = []
    module = sys.modules[SearchOptions.__module__]
    monkeypatch.setattr(module, "warm_up", lambda solver, problem: warmed.append(solver))
    list(ps.search_all(weights(2), "2:4", solver="random", stop=ps.MaxSeconds(0.01)))
    assert not warmed
    for stop in (None, STOP):
        list(ps.search_all(weights(2), "2:4", solver="random", stop=stop))
        assert warmed == [ps.get_solver("random")] * 2
        warmed.clear()


def test_skipped_tensors_are_known_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What is left out is listed with reasons; what has rows and columns is logged too."""
    with caplog.at_level(logging.WARNING):
        run = ps.search_all({**weights(), "odd": np.ones((4, 6))}, "2:4", solver="none")
    assert {skip.name for skip in run.skipped} == {"b", "odd"}
    assert [r.getMessage() for r in caplog.records] == [f"skipped {run.skipped[1]}"]


def test_padding(caplog: pytest.LogCaptureFixture) -> None:
    """With `pad` columns need not divide; the mask keeps the weight's own shape."""
    (_, result), *rest = ps.search_all({"odd": np.ones((4, 6))}, "2:4", solver="none", pad=True)
    assert not rest
    assert not caplog.records
    assert (result.mask.shape, result.details["padding"]) == ((4, 6), 2)


def test_the_tighter_bound_is_never_larger() -> None:
    """With `bound` the bound is at most the cheap one and at least the score."""
    weight = {"w": ps.instances.gaussian(8, 32, seed=0)}
    (_, cheap), (_, tight) = (
        next(ps.search_all(weight, "2:4", solver="swap", stop=STOP, bound=b)) for b in (False, True)
    )
    assert tight.score == cheap.score
    assert tight.score <= tight.bound <= cheap.bound


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"solver": "swop"}, UnknownName),
        ({"only": ["nothing*"]}, UnknownName),
        ({"only": ["b"]}, NothingEligible),
        ({"pattern": "2:x"}, UnknownName),
    ],
)
def test_misuse_is_told_at_the_call(options: dict[str, Any], error: type[Exception]) -> None:
    """What is wrong with a call is told by the call, before any result is asked for."""
    pattern = options.pop("pattern", "2:4")
    with pytest.raises(error):
        ps.search_all(weights(), pattern, **options)


def test_a_damaged_tensor_does_not_end_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """A tensor with NaN is listed and logged with its reason; the others are searched."""
    arrays = weights()
    arrays["w0"][2, 3] = np.nan
    run = ps.search_all(arrays, "2:4", solver="none")
    assert [name for name, _ in run] == ["w1", "w2", "conv"]
    assert [str(skip) for skip in run.failed] == [
        "w0: the weight holds nan at index (2, 3) (1 entries are not finite); repair or exclude "
        "it before the search"
    ]
    assert run.skipped[-1] == run.failed[0]
    assert f"skipped {run.failed[0]}" in caplog.messages
    comparison = ps.compare(arrays, "2:4", solvers="none")
    assert [row["tensor"] for row in comparison.rows] == ["w1", "w2", "conv"]
    assert run.failed[0] in comparison.skipped


def test_tensors_can_be_excluded() -> None:
    """Globs in `exclude` leave tensors out of those that `only` chooses."""
    run = ps.search_all(weights(), "2:4", only="w*", exclude=["w0", "*2"], solver="none")
    assert [name for name, _ in run] == ["w1"]
    comparison = ps.compare(weights(), "2:4", exclude="w*", solvers="none")
    assert [row["tensor"] for row in comparison.rows] == ["conv"]
    with pytest.raises(UnknownName, match="nothing"):
        ps.search_all(weights(), "2:4", exclude="nothing*")
    with pytest.raises(NothingEligible, match="every tensor is excluded"):
        ps.search_all(weights(), "2:4", exclude="*")


def test_errors_name_the_tensor() -> None:
    """A weight that cannot be used and a solver that cannot take it are told with the name."""
    bad = np.ones((4, 8))
    bad[1, 2] = np.nan
    with pytest.raises(ScoresError, match=r"the\.bad.*\(1, 2\)"):
        list(ps.search_all({"the.bad": bad}, "2:4", solver="none"))
    large = {"the.large": np.ones((4, 64))}
    with pytest.raises(UnsupportedProblem, match=r"the\.large"):
        list(ps.search_all(large, "2:4", solver="exhaustive"))


def test_a_tensor_that_the_solver_does_not_take_is_left_out() -> None:
    """The others are searched, and the iterator tells which was not, with the solver's reason."""
    weights = {"large": np.ones((4, 64)), "small": ps.instances.gaussian(4, 8, seed=0)}
    run = ps.search_all(weights, "2:4", solver="exhaustive")
    assert [name for name, _ in run] == ["small"]
    assert [skip.name for skip in run.failed] == ["large"]
    assert "64 columns" in run.failed[0].reason


def test_real_weights(sample_file: Path) -> None:
    """The sample of real weights is searched from its file, and every layer gains."""
    run = ps.search_all(sample_file, "2:4", only=["*query*", "*key*"], solver="swap", stop=STOP)
    results = dict(run)
    assert len(results) == 2
    for name, result in results.items():
        assert result.score > result.baseline
        assert result.mask.shape == open_tensors(sample_file).info(name).shape


def case_model(folder: Path, name: str) -> Any:
    """Return the model of a case from the folder of reported bugs."""
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("reported_cases", folder / "cases" / "models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return getattr(module, name)().model


def test_reported_first_convolution(shared_folder: Path) -> None:
    """O18: groups run along input channels at each tap; three channels are skipped by name."""
    model = case_model(shared_folder, "three_channel_first_convolution")
    run = ps.search_all(model.state_dict(), "2:4", solver="random", stop=STOP)
    assert "0.weight" in {skip.name for skip in run.surprising}
    ((name, result),) = run
    assert name == "2.weight"
    groups = result.permuted_mask.reshape(8, 4, 4, 3, 3)
    assert (groups.sum(axis=2) == 2).all()
    assert result.mask.sum() * 2 == result.mask.size


def test_reported_model_without_eligible_layers(shared_folder: Path) -> None:
    """O24: one convolution is eligible for 2:4, none for 1:16, and both are told in full."""
    weights = case_model(shared_folder, "every_layer_skipped_without_a_word").state_dict()
    run = ps.search_all(weights, "2:4", solver="none")
    assert [name for name, _ in run] == ["4.weight"]
    assert {skip.name for skip in run.surprising} == {"0.weight", "2.weight", "7.weight"}
    with pytest.raises(NothingEligible, match=r"1:16: 0\.weight"):
        ps.search_all(weights, "1:16", solver="none")


def test_masked_tensors_are_listed() -> None:
    """A tensor of which a part is masked is listed with the way out; the others are searched."""
    weight = ps.instances.gaussian(4, 8, seed=0)
    tensors = {"masked": np.ma.masked_array(weight, mask=weight > 0), "w": weight}
    run = ps.search_all(tensors, "2:4", solver="none")
    assert [name for name, _ in run] == ["w"]
    assert ".filled(0)" in run.failed[0].reason
    assert ps.compare(tensors, "2:4", solvers=["none"]).skipped[0].name == "masked"


def test_ragged_tensors_are_told() -> None:
    """Rows of different lengths in a dict are an error that names the tensor."""
    with pytest.raises(ScoresError, match=r"weight of ragged .*rows equally long"):
        ps.search_all({"ragged": [[1.0, 2.0], [1.0]]}, "2:4")
