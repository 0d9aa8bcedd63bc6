"""Answers as Prometheus 3 writes them, and as nobody should."""

from __future__ import annotations

import json
import math

import pytest

from hetserve.demand.answers import AnswerError, each_series, read_scalar

MATRIX = """{"status":"success","data":{"resultType":"matrix","result":[
  {"metric":{"namespace":"shop","service":"ads"},"values":[[1763899200,"0"],[1763899215.5,"12.5"],[1763899230,"NaN"]]},
  {"metric":{},"values":[[1763899200,"+Inf"]]}]}}"""
VECTOR = """{"status":"success","data":{"resultType":"vector","result":[
  {"metric":{"le":"+Inf"},"value":[1763899230.123,"-Inf"]}]},"infos":["PromQL info: metric might not be a counter"]}"""
SCALAR = '{"status":"success","data":{"resultType":"scalar","result":[1763899230.123,"1763899230.123"]}}'
PARSE_ERROR = """{"status":"error","errorType":"bad_data",
  "error":"invalid parameter \\"query\\": 1:12: parse error: unclosed left parenthesis"}"""


def test_the_series_of_a_range_query() -> None:
    one, other = each_series(json.loads(MATRIX))

    assert (one.labels["service"], one.points[:2]) == ("ads", [(1763899200, 0.0), (1763899215.5, 12.5)])
    assert math.isnan(one.points[2][1])
    assert other.points == [(1763899200, math.inf)]
    assert str(one) == '{namespace="shop", service="ads"}'


def test_the_series_of_an_instant_query_have_a_point_each_and_infos_are_no_trouble() -> None:
    (one,) = each_series(json.loads(VECTOR))

    assert one.points == [(1763899230.123, -math.inf)]


def test_a_scalar() -> None:
    assert read_scalar(json.loads(SCALAR)) == 1763899230.123


def answer(**data: object) -> dict[str, object]:
    return {"status": "success", "data": data}


UNREADABLE: dict[str, tuple[object, str]] = {
    "a list": ([], "no JSON object"),
    "null": (None, "no JSON object"),
    "no status": ({}, "no status"),
    "no data": ({"status": "success"}, "no data.result"),
    "no result": (answer(resultType="matrix"), "no data.result"),
    "an object as result": (answer(resultType="matrix", result={}), "no data.result"),
    "no value": (answer(resultType="matrix", result=[{"metric": {}}]), "KeyError 'value'"),
    "no labels": (answer(resultType="vector", result=[{"value": [1, "2"]}]), "KeyError 'metric'"),
    "a value that is no number": (answer(resultType="vector", result=[{"metric": {}, "value": [1, "x"]}]), "'x'"),
    "half a point": (answer(resultType="matrix", result=[{"metric": {}, "values": [[1]]}]), "ValueError"),
    "labels that are a list": (
        answer(resultType="vector", result=[{"metric": [], "value": [1, "2"]}]),
        "AttributeError",
    ),
    "a moment that is none": (answer(resultType="vector", result=[{"metric": {}, "value": ["x", "2"]}]), "'x'"),
    "no series": (answer(resultType="matrix", result=["x"]), "not the format"),
    "warnings": ({**answer(resultType="matrix", result=[]), "warnings": ["a store is away"]}, "a store is away"),
    "a timeout": ({"status": "error", "errorType": "timeout", "error": "query timed out"}, "query timed out"),
}


@pytest.mark.parametrize(("content", "words"), UNREADABLE.values(), ids=list(UNREADABLE))
def test_what_is_no_whole_answer_says_so(content: object, words: str) -> None:
    with pytest.raises(AnswerError) as error:
        list(each_series(content))
    assert words in str(error.value)
    assert not error.value.refused


REFUSED: dict[str, tuple[object, str]] = {
    "a parse error": (json.loads(PARSE_ERROR), "unclosed left parenthesis"),
    "a scalar": (json.loads(SCALAR), "the result is a scalar, not series"),
    "a string": (answer(resultType="string", result=[1, "x"]), "the result is a string, not series"),
    "a histogram": (
        answer(resultType="matrix", result=[{"metric": {}, "histograms": [[1, {"count": "3"}]]}]),
        "native histogram",
    ),
}


@pytest.mark.parametrize(("content", "words"), REFUSED.values(), ids=list(REFUSED))
def test_a_query_that_is_to_blame_is_refused(content: object, words: str) -> None:
    with pytest.raises(AnswerError) as error:
        list(each_series(content))
    assert words in str(error.value)
    assert error.value.refused


@pytest.mark.parametrize("content", [json.loads(VECTOR), answer(resultType="scalar", result=[1]), {}])
def test_a_scalar_that_is_none_says_so(content: object) -> None:
    with pytest.raises(AnswerError):
        read_scalar(content)
