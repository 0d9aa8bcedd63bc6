from __future__ import annotations

import pytest

from hetserve.base.csv_rows import CsvError
from hetserve.profiles.measurements import Samples, read_measurements


def read(text: str, model: str = "m", instance_type: str = "t4") -> Samples:
    return read_measurements(text, "s.csv", model, instance_type).alone


def test_the_columns_name_decides_between_milliseconds_and_seconds() -> None:
    assert read("batch,latency_ms\n8,20\n1,5\n8,30\n").by_batch == {1: (0.005,), 8: pytest.approx((0.02, 0.03))}
    assert read("latency,batch\n0.02,8\n").by_batch == {8: (0.02,)}


def test_other_columns_blank_lines_spaces_and_a_byte_order_mark_do_no_harm() -> None:
    assert read("\ufeffhost, batch ,latency\n\na, 8 , 0.02\n\n").by_batch == {8: (0.02,)}


def test_of_a_file_of_many_models_and_types_only_the_own_lines_count() -> None:
    text = "model,instance,batch,latency\nMT-WND,t4,1,0.1\nMT-WND,v100,1,0.2\nNCF,t4,1,0.3\n"
    assert read(text, model="mt-wnd").by_batch == {1: (0.1,)}
    with pytest.raises(CsvError, match=r"no line with model rm2; there are: MT-WND, NCF"):
        read(text, model="rm2")
    with pytest.raises(CsvError, match=r"no line with instance t3; there are: t4, v100"):
        read(text, model="mt-wnd", instance_type="t3")


@pytest.mark.parametrize("value", ["NaN", "-1", "0", "inf", "1e400", "abc", "1,5", "0.0000001", "99999999999"])
def test_a_latency_that_none_can_be_is_named_with_its_place(value: str) -> None:
    quoted = f'"{value}"'
    with pytest.raises(CsvError) as refused:
        read(f"batch,latency_ms\n1,2\n8,{quoted}\n")
    assert refused.value.errors == (f"s.csv, line 3: latency_ms {value!r}: must be a number from 1e-06 to 86400000 ms",)


@pytest.mark.parametrize("value", ["0", "-3", "2.5", "NaN", "1000001", "1" * 40, "\u0663"])
def test_a_batch_that_none_can_be_is_named_with_its_place(value: str) -> None:
    with pytest.raises(CsvError) as refused:
        read(f"batch,latency\n{value},1\n")
    assert refused.value.errors == (f"s.csv, line 2: batch {value[:40]!r}: must be a whole number from 1 to 1000000",)


def test_every_wrong_line_is_reported_not_only_the_first() -> None:
    with pytest.raises(CsvError) as refused:
        read("batch,latency\n,1\n1,\n2\n")
    assert refused.value.errors == (
        "s.csv, line 4: 1 values for 2 columns (batch, latency)",
        "s.csv, line 2: batch is empty: must be a whole number from 1 to 1000000",
        "s.csv, line 3: latency is empty: must be a number from 1e-09 to 86400 s",
    )


def test_of_many_errors_twenty_are_shown() -> None:
    with pytest.raises(CsvError) as refused:
        read("batch,latency\n" + "0,1\n" * 50)
    assert len(refused.value.errors) == 21
    assert refused.value.errors[-1] == "s.csv: and 30 more"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "s.csv: is empty; its first line must name the columns batch"),
        ("batch,latency\n", "s.csv: there is no line below the header"),
        ("size,latency\n1,1\n", "s.csv, line 1: no column batch; there are: size, latency"),
        ("batch,time\n1,1\n", "s.csv, line 1: no column latency_ms, nor latency (in seconds); there are: batch, time"),
        ("batch,latency,latency_ms\n1,1,1\n", "s.csv, line 1: both latency_ms and latency: keep one; "
         "there are: batch, latency, latency_ms"),
        ("batch,batch,latency\n1,1,1\n", "s.csv, line 1: column batch is there 2 times"),
        ('batch,latency\n1,"2\n', "s.csv, line 2: not valid CSV: unexpected end of data"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_table_of_samples_is_refused(text: str, error: str) -> None:
    with pytest.raises(CsvError) as refused:
        read(text)
    assert refused.value.errors == (error,)
