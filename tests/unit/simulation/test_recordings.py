"""Recorded queries: what a file may say, and that a replay is what was recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hetserve.demand import BatchMix
from hetserve.registry.choices import Arrivals
from hetserve.simulation.workload import Recording, draw_workload, read_recording

MIX = BatchMix.of([(1, 1.0), (8, 1.0)])


def written(folder: Path, text: str) -> Path:
    path = folder / "queries.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_times_and_batches_are_read_in_order(tmp_path: Path) -> None:
    found = read_recording(written(tmp_path, "batch,time\n8,0.5\n1,0.5\n8,2.5\n"))
    assert found == Recording((0.5, 0.5, 2.5), (8, 1, 8))
    assert found.rate() == 1.0
    assert found.mix == BatchMix.of([(1, 1.0), (8, 2.0)])


@pytest.mark.parametrize("head", ["time, batch", "Time,Batch", " TIME ,batch ", "\ufefftime,batch"])
def test_a_head_as_other_programs_write_it_is_read(tmp_path: Path, head: str) -> None:
    found = read_recording(written(tmp_path, f"{head}\n0.5,8\n1.5,1\n"))
    assert found == Recording((0.5, 1.5), (8, 1))


def test_batches_that_pandas_wrote_are_read(tmp_path: Path) -> None:
    assert read_recording(written(tmp_path, "time,batch\n0.5,8.0\n1.5,1.0\n")) == Recording((0.5, 1.5), (8, 1))


def test_at_its_own_rate_a_recording_is_replayed_gap_by_gap() -> None:
    recording = Recording((10.0, 10.25, 11.0, 14.0), (1, 8, 8, 1))
    workload = draw_workload(MIX, 99, 3, recording)
    assert workload.arrivals is Arrivals.RECORDED
    assert workload.times(recording.rate()) == pytest.approx([0.0, 0.25, 1.0, 4.0])
    assert workload.times(2 * recording.rate()) == pytest.approx([0.0, 0.125, 0.5, 2.0])
    assert [workload.batches[size] for size in workload.sizes] == [1, 8, 8, 1]


def test_batches_that_were_not_recorded_are_drawn_from_the_mix() -> None:
    recording = Recording(tuple(float(time) for time in range(1000)))
    assert recording.mix is None
    first, again, other = (draw_workload(MIX, 1, seed, recording) for seed in (3, 3, 4))
    assert np.array_equal(first.sizes, again.sizes)
    assert not np.array_equal(first.sizes, other.sizes)
    assert 400 < int(first.sizes.sum()) < 600, "half of each batch, about"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batch\n1\n", "no column `time`; columns are: batch"),
        ("", "no column `time`; columns are: none"),
        ("time\n1\nsoon\n", "line 3, column time: 'soon' is not a number of seconds"),
        ("time\n1\ninf\n", "line 3, column time: 'inf' is not a number of seconds"),
        ("time,batch\n1,1\n2\n", "line 3, column batch: None is not a whole number"),
        ("time\n1\n0.5\n", "line 3, column time: 0.5 comes before the time of the line above, 1"),
        ("time,batch\n1,4\n2,0\n", "line 3, column batch: '0' is not a whole number of at least 1"),
        ("time,batch\n1,4\n2,1.5\n", "line 3, column batch: '1.5' is not a whole number of at least 1"),
        ("time,batch\n1,4\n2,1_6\n", "line 3, column batch: '1_6' is not a whole number of at least 1"),
        ("time\n1\n", "1 lines; at least two queries at different times"),
        ("time\n1\n1\n", "2 lines; at least two queries at different times"),
        ("time\n-1.7e308\n1.7e308\n", "is no span of time that can be replayed"),
        ("time\n0\n1e-320\n", "is no span of time that can be replayed"),
        (f"time,batch\n1,{'1' * 200_000}\n", "field larger than field limit"),
    ],
)
def test_what_cannot_be_replayed_is_named_by_file_line_and_column(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match="queries") as raised:
        read_recording(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)
