from __future__ import annotations

import math
from pathlib import Path

import pytest

from hetserve.base.csv_rows import CsvError
from hetserve.base.files import UnreadableError
from hetserve.base.units import QPS, Seconds
from hetserve.demand.trace import BadSamples, LoadTrace, read_trace


def _read(folder: Path, text: str, bad_samples: BadSamples = "refused") -> LoadTrace:
    path = folder / "load.csv"
    path.write_text(text)
    return read_trace(path, bad_samples=bad_samples)


def _errors(folder: Path, text: str, bad_samples: BadSamples = "refused") -> tuple[str, ...]:
    with pytest.raises(CsvError) as caught:
        _read(folder, text, bad_samples)
    return tuple(line.removeprefix(f"{folder}/") for line in caught.value.errors)


def test_a_rate_holds_until_the_next_time_and_the_last_for_good(tmp_path: Path) -> None:
    trace = _read(tmp_path, "time_s,qps\n10,5\n20,0\n\n40.5,7.25\n")
    at = [0.0, 10.0, 19.9, 20.0, 40.4, 40.5, 1e9]
    assert [trace.rate_at(Seconds(time)) for time in at] == [5, 5, 5, 0, 0, 7.25, 7.25]
    assert (trace.start, trace.span) == (10.0, 30.5)


def test_columns_may_come_in_any_order_and_with_others(tmp_path: Path) -> None:
    assert _read(tmp_path, "\ufeffqps,note,time_s\n3,x,0\n").rates == (3.0,)


@pytest.mark.parametrize("cell", ["", "nan", "inf", "-inf", "-3"])
def test_bad_samples_are_kept_where_they_are_allowed_and_named_where_not(tmp_path: Path, cell: str) -> None:
    text = f"time_s,qps\n0,1\n60,{cell}\n"
    kept = _read(tmp_path, text, "allowed").rates[1]
    assert kept is None if not cell else str(kept) == str(float(cell))
    shown = f"qps {cell!r}" if cell else "qps is empty"
    assert _errors(tmp_path, text) == (
        f"load.csv, line 3: {shown}: must be a number of queries/s from 0 to 1e+09, for example 12.5",
    )


@pytest.mark.parametrize("bad_samples", ["allowed", "refused"])
@pytest.mark.parametrize("cell", ["much", "1,000", "2e9", "1 q/s"])
def test_a_cell_that_is_no_rate_is_an_error(tmp_path: Path, cell: str, bad_samples: BadSamples) -> None:
    (error,) = _errors(tmp_path, f'time_s,qps\n0,"{cell}"\n', bad_samples)
    assert f"line 2: qps '{cell}': must be a number of queries/s from 0 to 1e+09" in error


@pytest.mark.parametrize("bad_samples", ["allowed", "refused"])
def test_times_that_do_not_increase_are_named_with_the_remedy(tmp_path: Path, bad_samples: BadSamples) -> None:
    remedy = "sort the lines, keep one of each time"
    assert _errors(tmp_path, "time_s,qps\n0,1\n60,1\n60,2\n30,3\n", bad_samples) == (
        f"load.csv, line 4: time_s '60': must be above the time before, 60: {remedy}",
        f"load.csv, line 5: time_s '30': must be above the time before, 60: {remedy}",
    )


@pytest.mark.parametrize("cell", ["", "nan", "inf", "noon"])
def test_a_time_that_is_no_number_is_an_error(tmp_path: Path, cell: str) -> None:
    (error,) = _errors(tmp_path, f"time_s,qps\n{cell},1\n", "allowed")
    assert error.endswith("must be a number of seconds, for example 60")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "load.csv: is empty; its first line must name the columns time_s, qps"),
        ("time_s,qps\n", "load.csv: there is no line below the header"),
        ("time,qps\n1,2\n", "load.csv, line 1: no column time_s; there are: time, qps"),
        ("time_s,qps\n1\n", "load.csv, line 2: 1 values for 2 columns (time_s, qps)"),
    ],
)
def test_a_file_that_is_no_trace_says_what_it_lacks(tmp_path: Path, text: str, error: str) -> None:
    assert _errors(tmp_path, text, "allowed") == (error,)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"none\.csv: cannot be read"):
        read_trace(tmp_path / "none.csv", bad_samples="allowed")


@pytest.mark.parametrize("times", [(), (1.0, 1.0), (2.0, 1.0), (math.nan, 1.0)])
def test_a_trace_needs_increasing_times(times: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"increasing|at least one"):
        LoadTrace(tuple(map(Seconds, times)), (QPS(1.0),) * len(times))


@pytest.mark.parametrize("cell", ["1_000", "\u0661\u0662", "\uff11", "0x10"])
def test_digits_are_those_of_json(tmp_path: Path, cell: str) -> None:
    """Python reads more: 1_000 is a slip of whoever wrote it."""
    for text, column in ((f"time_s,qps\n0,{cell}\n", "qps"), (f"time_s,qps\n{cell},1\n", "time_s")):
        (error,) = _errors(tmp_path, text, "allowed")
        assert error.startswith(f"load.csv, line 2: {column} {cell!r}: must be a number of ")
