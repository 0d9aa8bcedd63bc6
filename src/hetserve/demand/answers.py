"""Answers of Prometheus's HTTP API as values; what is no whole answer is refused in words.

Format: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_NO_FORMAT: Final = "not the format of Prometheus's API"

_TRUNCATED: Final = "truncated due to limit"
"""How Prometheus warns where it has left series out for the `limit` of a request."""

Points = list[tuple[float, float]]
"""Moment [Unix seconds] and value, oldest first; values may be NaN or infinite."""


class AnswerError(ValueError):
    """Not an answer that can be read: in words. refused: the query itself is to blame."""

    def __init__(self, words: str, *, refused: bool = False) -> None:
        super().__init__(words)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer."""

    labels: Mapping[str, str]
    points: Points

    def __str__(self) -> str:
        return "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(self.labels.items())) + "}"


def each_series(answer: object) -> Iterator[Series]:
    """Series of a range query (matrix), or of an instant one (vector: a point each), one after the other.

    Raises AnswerError: another type, such as a scalar or a string; no histogram is a number; a warning, since series
    may be missing then.
    """
    kind, result = _result(answer)
    if kind not in {"matrix", "vector"}:
        raise AnswerError(f"the result is a {kind}, not series", refused=True)
    for one in result:
        try:
            yield _series(one)
        except AnswerError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise AnswerError(f"{_NO_FORMAT}: {type(error).__name__} {error}") from None


def read_scalar(answer: object) -> float:
    """The value of an instant query that is a scalar. Raises AnswerError."""
    kind, result = _result(answer)
    if kind != "scalar":
        raise AnswerError(f"the result is a {kind}, not a scalar", refused=True)
    try:
        return float(result[1])
    except (TypeError, ValueError, IndexError) as error:
        raise AnswerError(f"{_NO_FORMAT}: {error}") from None


def _series(one: Mapping[str, Any]) -> Series:
    if "histogram" in one or "histograms" in one:
        raise AnswerError("the result is a native histogram, not numbers; use histogram_count or a rate", refused=True)
    pairs = one["values"] if "values" in one else [one["value"]]
    return Series(dict(one["metric"].items()), [(float(moment), float(value)) for moment, value in pairs])


def _result(answer: object) -> tuple[str, list[Any]]:
    """Type and content of a result."""
    if not isinstance(answer, Mapping):
        raise AnswerError(f"{_NO_FORMAT}: no JSON object")
    if answer.get("status") != "success":
        words = answer.get("error") or answer.get("errorType") or "no status"
        raise AnswerError(str(words), refused=answer.get("errorType") in {"bad_data", "execution"})
    warnings = answer.get("warnings")
    if warnings:
        words = "; ".join(map(str, warnings))
        raise AnswerError(f"Prometheus warns, so series may be missing: {words}", refused=_TRUNCATED in words)
    data = answer.get("data")
    if not (isinstance(data, Mapping) and isinstance(data.get("result"), list)):
        raise AnswerError(f"{_NO_FORMAT}: no data.result")
    return str(data.get("resultType")), data["result"]
