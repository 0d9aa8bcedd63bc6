from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.caching import CompileResultCacheImpl
from numpy.typing import NDArray

from hetserve import compiled

PROGRAM = """
import sys
from hetserve.dispatch import make_policy
from testing.deciding import Worker
from testing.deciding import decide
from testing.dispatching import snapshot
print(len(decide(make_policy("fcfs"), snapshot([(0.0, 1)], [Worker(0)])).dispatches))
assert "scipy.linalg" not in sys.modules, "SciPy was loaded for nothing"
"""


def _run(environment: dict[str, str]) -> str:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, env={**os.environ, **environment}
    ).stdout


def _kernels(folder: Path) -> dict[Path, int]:
    """When each was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}


@pytest.mark.deep
def test_compiled_code_is_found_on_disk_by_the_next_process_also_by_that_of_another_checkout(tmp_path: Path) -> None:
    copy, cache = tmp_path / "copy", {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    shutil.copytree(Path(compiled.__file__).parent, copy / "hetserve", ignore=shutil.ignore_patterns("__pycache__"))
    assert _run(cache) == "1\n"
    before = _kernels(tmp_path)
    assert before, "nothing was cached"
    assert all((tmp_path / "cache" / "hetserve" / "kernels") in path.parents for path in before)
    assert _run({**cache, "PYTHONPATH": str(copy)}) == "1\n"
    assert _kernels(tmp_path) == before, "the second process compiled again"


@pytest.mark.deep
def test_compiled_code_is_found_in_the_folder_that_numba_is_told(tmp_path: Path) -> None:
    told = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert _run(told) == "1\n"
    before = _kernels(tmp_path)
    assert before, "nothing was cached"
    assert _run(told) == "1\n"
    assert _kernels(tmp_path) == before, "the second process compiled again"


def test_compiled_products_of_matrices_still_find_blas() -> None:
    assert compiled.njit(_square)(np.full((2, 2), 1.0)).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def _square(x: NDArray[np.float64]) -> NDArray[np.float64]:
    product: NDArray[np.float64] = np.dot(x, x)
    return product


def test_where_no_folder_is_writable_the_code_is_compiled_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompileResultCacheImpl, "__init__", _no_locator)
    assert compiled.njit(_twice)(4) == 8


def _no_locator(self: object, function: object) -> None:
    raise RuntimeError("cannot cache function 'f': no locator available for file 'f.py'")


CALLS = """
import sys
from hetserve.compiled import compilations
from hetserve.dispatch import make_policy
from testing.deciding import Worker
from testing.deciding import decide
from testing.dispatching import snapshot
compiled = []
with compilations(compiled.append):
    decide(make_policy(sys.argv[1]), snapshot([(0.0, 1)], [Worker(0)]))
print(compiled.count(True))
"""


READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'


@pytest.mark.deep
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a folder read-only")
@pytest.mark.parametrize(("policy", "compiled_anew"), [("fcfs", 0), ("threshold", 1)])
def test_what_was_compiled_ahead_is_read_where_nothing_can_be_written(
    policy: str, compiled_anew: int, tmp_path: Path
) -> None:
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert _run(environment) == "1\n"
    before = sorted(tmp_path.rglob("*"))
    command = ["unshare", "--mount", "sh", "-c", READ_ONLY, str(tmp_path), sys.executable, "-c", CALLS, policy]
    own = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=own, check=False)
    assert (done.stdout, done.stderr) == (f"{compiled_anew}\n", "")
    assert sorted(tmp_path.rglob("*")) == before


def _twice(x: int) -> int:
    return 2 * x


def _shifted(x: int) -> int:
    return _step(x) + 1


def _step(x: int) -> int:
    raise NotImplementedError


def test_a_template_is_compiled_with_the_functions_bound_to_its_names() -> None:
    by_ten = compiled.njit(_times_ten)
    assert compiled.specialise(_shifted, "shifted_by_ten", _step=by_ten)(3) == 31
    with pytest.raises(NotImplementedError):
        _shifted(3)


def _times_ten(x: int) -> int:
    return 10 * x


def test_what_allocates_is_not_compiled_uncounted() -> None:
    assert compiled.njit(_sum_of_a_copy)(np.arange(3.0)) == 3.0
    with pytest.raises(numba.core.errors.NumbaError, match="NRT required"):
        compiled.njit_uncounted(_sum_of_a_copy)(np.arange(3.0))


def test_a_loop_takes_a_kernel_that_allocates() -> None:
    by_copy = compiled.njit(_sum_of_a_copy)
    assert compiled.specialise(_total, "total_by_copy", _sum=by_copy)(np.arange(3.0)) == 3.0


def _sum_of_a_copy(values: NDArray[np.float64]) -> float:
    return float(values.copy().sum())


def _total(values: NDArray[np.float64]) -> float:
    total = 0.0
    for _ in range(1000):
        total = _sum(values)
    return total


def _sum(values: NDArray[np.float64]) -> float:
    raise NotImplementedError


def test_the_name_of_the_cache_follows_the_files_that_a_kernel_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    from hetserve.dispatch import kairos

    def digest() -> str:
        return compiled.source_digest(kairos.policy)

    before = digest()
    real = Path.read_bytes

    def edited(path: Path) -> bytes:
        return real(path) + (b"# edited" if path.name == "assignment.py" else b"")

    monkeypatch.setattr(Path, "read_bytes", edited)
    assert digest() != before, "an edit of the solver would leave the old one running"


def test_the_name_of_the_cache_follows_constants_from_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    from hetserve.dispatch import hetserve as policy

    def digest() -> str:
        kernel: Any = policy._serve_by_chance
        return compiled.source_digest(kernel.py_func)

    before = digest()
    monkeypatch.setattr("hetserve.dispatch.hetserve.ORDINARY", 17)
    assert digest() != before, "a constant that is changed where it is defined would stay compiled in"


def test_an_inner_function_serves_compiled_ones_and_refuses_python() -> None:
    inner = compiled.njit_inner(_twice)
    by_twice = compiled.specialise(_shifted, "shifted_by_twice", _step=inner)
    assert by_twice(3) == 7
    with pytest.raises(TypeError, match="_twice has no entry from Python"):
        inner(3)


def test_what_is_compiled_already_cannot_be_a_template() -> None:
    with pytest.raises(TypeError, match="compiled already"):
        compiled.specialise(compiled.njit(_twice), "again")
