"""The models that a worker serves: one that gives its inputs back, and a classifier of handwritten digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hetserve_worker.oip import OipError, Tensor

_TRAINED_ON: Final = 1500
"""Of 1,797 images; the rest shows how good the classifier is."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """metadata: platform, inputs and outputs by the protocol. infer raises OipError for inputs that do not fit."""

    metadata: Mapping[str, Any]
    infer: Callable[[Sequence[Tensor]], Sequence[Tensor]]


def echo() -> ServedModel:
    """Gives every input back; its metadata names none, as it takes any."""
    return ServedModel({"platform": "hetserve_echo", "inputs": [], "outputs": []}, lambda inputs: inputs)


def digits() -> ServedModel:
    """Logistic regression on the digits of scikit-learn, images of 8 x 8 pixels from 0 to 16.

    It is trained here, in 0.1 s: the solver draws nothing, so every start makes the same model, and no stored one has
    to fit the version of the library.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    pixels, labels = load_digits(return_X_y=True)
    classifier = LogisticRegression(max_iter=1000).fit(pixels[:_TRAINED_ON] / 16, labels[:_TRAINED_ON])

    def infer(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        found = classifier.predict_proba(_images(inputs) / 16)
        best = classifier.classes_[found.argmax(axis=1)].astype(np.int64)
        return (
            Tensor("labels", "INT64", best.shape, best),
            Tensor("probabilities", "FP64", found.shape, found.ravel()),
        )

    taken = {"name": "images", "datatype": "FP32", "shape": [-1, 64]}
    labelled = {"name": "labels", "datatype": "INT64", "shape": [-1]}
    likely = {"name": "probabilities", "datatype": "FP64", "shape": [-1, 10]}
    return ServedModel({"platform": "scikit_learn", "inputs": [taken], "outputs": [labelled, likely]}, infer)


def _images(inputs: Sequence[Tensor]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    one = inputs[0]
    if len(inputs) > 1 or one.name != "images":
        raise OipError(f"inputs {', '.join(each.name for each in inputs)[:60]!r}: must be images alone")
    if one.datatype != "FP32" or one.shape[1:] != (64,) or not one.shape[0]:
        raise OipError(
            f"inputs images: {one.datatype} of shape {list(one.shape)}; must be FP32 of [n, 64], n from 1 on"
        )
    if not np.isfinite(one.data).all():
        raise OipError("inputs images: not finite; must be pixels from 0 to 16")
    return one.data.reshape(one.shape).astype(np.float64)


MODELS: Final[Mapping[str, Callable[[], ServedModel]]] = {"digits": digits, "echo": echo}
