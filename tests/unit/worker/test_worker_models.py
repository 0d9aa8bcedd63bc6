"""The models of a worker: what they say of themselves, what they answer, and what they refuse."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hetserve_worker.models import MODELS, ServedModel
from hetserve_worker.oip import OipError, Tensor

LAST = 297
"""Images that the classifier was not trained on."""

digits = cache(MODELS["digits"])


def images(pixels: np.ndarray[Any, Any], shape: tuple[int, ...] | None = None, datatype: str = "FP32") -> Tensor:
    return Tensor("images", datatype, pixels.shape if shape is None else shape, pixels.astype(np.float32).ravel())


def test_digits_that_it_has_not_seen_are_told_apart() -> None:
    pixels, truth = load_digits(return_X_y=True)
    labels, probabilities = digits().infer([images(pixels[-LAST:])])
    assert (labels.name, labels.datatype, labels.shape) == ("labels", "INT64", (LAST,))
    assert (probabilities.name, probabilities.datatype, probabilities.shape) == ("probabilities", "FP64", (LAST, 10))
    assert (labels.data == truth[-LAST:]).mean() > 0.9
    by_image = probabilities.data.reshape(LAST, 10)
    assert by_image.sum(axis=1) == pytest.approx(1.0)
    assert (by_image.argmax(axis=1) == labels.data).all()


def test_every_start_makes_the_same_model() -> None:
    pixels, _ = load_digits(return_X_y=True)
    again = MODELS["digits"]()
    first, second = (model.infer([images(pixels[:50])])[1].data for model in (digits(), again))
    assert (first == second).all()


def test_the_metadata_is_what_is_answered() -> None:
    described = digits().metadata
    answered = digits().infer([images(np.zeros((3, 64)))])
    assert described["inputs"] == [{"name": "images", "datatype": "FP32", "shape": [-1, 64]}]
    for said, given in zip(described["outputs"], answered, strict=True):
        assert (said["name"], said["datatype"]) == (given.name, given.datatype)
        assert [-1, *given.shape[1:]] == said["shape"]
        assert given.data.shape == (np.prod(given.shape),)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([images(np.zeros((2, 63)))], r"FP32 of shape \[2, 63\]; must be FP32 of \[n, 64\]"),
        ([images(np.zeros(64))], r"FP32 of shape \[64\]"),
        ([images(np.zeros(64), (1, 8, 8))], r"FP32 of shape \[1, 8, 8\]"),
        ([images(np.zeros((0, 64)))], r"FP32 of shape \[0, 64\]"),
        ([images(np.zeros(1), ())], r"FP32 of shape \[\]"),
        ([images(np.zeros((1, 64)), datatype="FP64")], r"FP64 of shape \[1, 64\]"),
        ([images(np.full((1, 64), np.nan))], "not finite; must be pixels from 0 to 16"),
        ([images(np.zeros((1, 64)))] * 2, "'images, images': must be images alone"),
        ([Tensor("x" * 100, "FP32", (1, 64), np.zeros(64, np.float32))], "x{60}': must be images alone"),
    ],
)
def test_images_of_another_kind_are_refused(inputs: list[Tensor], message: str) -> None:
    with pytest.raises(OipError, match=message):
        digits().infer(inputs)


def test_an_echo_gives_back_whatever_it_is_given() -> None:
    echo: ServedModel = MODELS["echo"]()
    given = [images(np.zeros((2, 3))), Tensor("b", "BYTES", (1,), np.array([b"x"], object))]
    assert list(echo.infer(given)) == given
    assert echo.metadata["inputs"] == []
