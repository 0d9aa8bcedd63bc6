"""Runs of copies and neighbours in a measurements file, and the lines that say nothing."""

from __future__ import annotations

import pytest

from hetserve.base.csv_rows import CsvError
from hetserve.profiles.measurements import Measurements, Run, read_measurements

COLUMNS = "model,batch,copies,neighbour,neighbour_batch,latency"


def read(*rows: str, header: str = COLUMNS) -> Measurements:
    return read_measurements("\n".join((header, *rows)) + "\n", "s.csv", "a", "t4")


def test_a_line_is_alone_a_copy_or_beside_a_neighbour() -> None:
    measured = read("a,8,1,,,0.1", "a,8,,,,0.2", "a,8,3,,,0.3", "B,4,1,a,8,0.5", "B,4,,,,0.4")
    assert measured.runs == {
        Run("a", 8): (0.1, 0.2),
        Run("a", 8, copies=3): (0.3,),
        Run("b", 4): (0.4,),
        Run("b", 4, neighbour="a", neighbour_batch=8): (0.5,),
    }
    assert measured.copied
    assert measured.neighboured


def test_the_latencies_of_a_profile_are_those_alone() -> None:
    assert read("a,8,1,,,0.1", "a,8,2,,,0.2", "b,8,1,a,8,9", "a,8,1,b,8,0.3").alone.by_batch == {8: (0.1,)}


def test_what_a_neighbour_does_to_this_model_is_counted_and_left_to_its_profile() -> None:
    measured = read("a,8,1,,,0.1", "a,8,1,b,4,0.2", "a,8,1,b,2,0.2", "a,8,1,c,4,0.2")
    assert measured.beside_others == {"b": 2, "c": 1}
    assert not measured.neighboured


def test_lines_of_strangers_are_not_read() -> None:
    measured = read("a,8,1,,,0.1", "c,nonsense,x,d,,y", "c,8,2,,,0.1", "b,8,1,a,4,0.2", "b,8,2,,,0.1", "b,8,1,,,0.1")
    assert set(measured.runs) == {Run("a", 8), Run("b", 8), Run("b", 8, neighbour="a", neighbour_batch=4)}


def test_counters_are_means_of_the_model_alone_in_either_case() -> None:
    header = "batch,copies,latency,gpu_util,SM_ACTIVE"
    measured = read("8,1,0.1,30,0.2", "8,1,0.1,40,", "8,2,0.1,90,0.9", "4,1,0.1,10,0.1", header=header)
    assert measured.counters["GPU_UTIL"] == pytest.approx({4: 0.1, 8: 0.35})
    assert measured.counters["SM_ACTIVE"] == pytest.approx({4: 0.1, 8: 0.2})


BAD = {
    "no copy": ("a,8,0,,,0.1", "copies '0': must be a whole number from 1 to 64"),
    "half a copy": ("a,8,1.5,,,0.1", "copies '1.5': must be a whole number from 1 to 64"),
    "as many copies as queries": ("a,8,1000,,,0.1", "copies '1000': must be a whole number from 1 to 64"),
    "copies beside a neighbour": (
        "b,8,2,a,8,0.1",
        "copies '2': copies and neighbours are measured in runs of their own: write copies 1 here",
    ),
    "a neighbour without its batch": (
        "b,8,1,a,,0.1",
        "neighbour 'a': needs the items of its queries in column neighbour_batch",
    ),
    "the batch of no neighbour": (
        "a,8,1,,4,0.1",
        "neighbour_batch '4': needs the neighbour's model in column neighbour",
    ),
    "a neighbour's batch of none": ("b,8,1,a,0,0.1", "neighbour_batch '0': must be a whole number from 1 to 1000000"),
    "the model beside itself": (
        "a,8,1,A,8,0.1",
        "neighbour 'A': is the model itself; for a run of copies write copies 2, without a neighbour",
    ),
}


@pytest.mark.parametrize(("row", "error"), BAD.values(), ids=BAD)
def test_a_run_that_says_nothing_is_named_with_its_line_and_a_remedy(row: str, error: str) -> None:
    with pytest.raises(CsvError) as refused:
        read("a,8,1,,,0.1", row)
    assert refused.value.errors == (f"s.csv, line 3: {error}",)


@pytest.mark.parametrize(
    ("column", "value", "error"),
    [
        ("GPU_UTIL", "101", "GPU_UTIL '101': must be a number from 0 to 100 %"),
        ("SM_ACTIVE", "57", "SM_ACTIVE '57': must be a number from 0 to 1"),
        ("gr_engine_active", "NaN", "gr_engine_active 'NaN': must be a number from 0 to 1"),
    ],
)
def test_a_counter_out_of_its_range_is_named(column: str, value: str, error: str) -> None:
    with pytest.raises(CsvError) as refused:
        read(f"8,0.1,{value}", header=f"batch,latency,{column}")
    assert refused.value.errors == (f"s.csv, line 2: {error}",)


def test_neighbours_need_to_be_told_whose_latency_it_is() -> None:
    with pytest.raises(CsvError, match="line 1: column neighbour needs a column model: a profile"):
        read("8,b,4,0.1", header="batch,neighbour,neighbour_batch,latency")


@pytest.mark.parametrize(
    ("column", "meant"),
    [
        ("neighbor", "neighbour"),
        ("Neighbor", "neighbour"),
        ("neighbor_batch", "neighbour_batch"),
        ("Copie", "copies"),
    ],
)
def test_a_misspelled_column_is_refused_as_its_lines_would_count_as_alone(column: str, meant: str) -> None:
    with pytest.raises(CsvError, match=f"line 1: column {column}: is it {meant}[?] Write it so, or rename the column"):
        read("a,8,0.1,2", header=f"model,batch,latency,{column}")


def test_columns_of_other_names_are_left_alone() -> None:
    assert read("a,8,0.1,2,9", header="model,batch,latency,time,batch_id").alone.by_batch == {8: (0.1,)}


def test_a_model_that_never_ran_alone_has_no_profile() -> None:
    with pytest.raises(CsvError, match=r"s.csv: no line of a alone \(copies 1 or empty, no neighbour\)"):
        read("a,8,2,,,0.1")


def test_a_file_that_pandas_wrote_is_read() -> None:
    """A column with a gap has floats, and an index a column without a name."""
    header = ",Model,Batch,Copies,Neighbour,Neighbour_Batch,Latency"
    measured = read("0,a,8.0,1.0,,,0.1", "1,a,8.0,3.0,,,0.3", "2,b,4.0,1.0,a,8.0,0.5", "3,b,4.0,,,,0.4", header=header)
    assert measured == read("a,8,1,,,0.1", "a,8,3,,,0.3", "b,4,1,a,8,0.5", "b,4,,,,0.4")


@pytest.mark.parametrize("batch", ["8.5", "1_0", "\u0668", "8e400", "nan"])
def test_what_is_no_whole_number_is_no_batch(batch: str) -> None:
    with pytest.raises(CsvError, match=r"batch .*: must be a whole number from 1 to"):
        read(f"a,{batch},1,,,0.1")
