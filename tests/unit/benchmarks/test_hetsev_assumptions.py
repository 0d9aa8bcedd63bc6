"""What is assumed where HetSev's paper is silent agrees with its text, and a file that makes no sense is refused."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import pytest
from benchmarks.hetsev.assumptions import GIVEN, given, parse

ASSUMED = given()
BATCHES = (2, 4, 8, 16)


def slower(one: tuple[str, int], other: tuple[str, int]) -> float:
    """By what share the latency of the two rises while both are busy, the mean."""
    pair = ASSUMED.stretch(one, (other,)), ASSUMED.stretch(other, (one,))
    return sum(pair) / 2 - 1


def combinations() -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """The 160 of section 3.2."""
    pairs = combinations_with_replacement(ASSUMED.models, 2)
    return [((one, b), (other, c)) for one, other in pairs for b, c in product(BATCHES, repeat=2)]


def copies(model: str, count: int) -> float:
    """Throughput of so many always busy copies on a GPU / that of one."""
    one = model, ASSUMED.models[model].batch
    return count / ASSUMED.stretch(one, (one,) * (count - 1))


def test_nine_of_ten_pairs_raise_latency_by_less_than_18_percent() -> None:
    raised = [slower(*pair) for pair in combinations()]
    assert len(raised) == 160
    assert sum(rise < 0.18 for rise in raised) >= 144


def test_copies_of_inception_and_resnet_suffer_most() -> None:
    with_own = {m: slower((m, 16), (m, 16)) for m in ASSUMED.models}
    others = [slower(*pair) for pair in combinations() if pair[0][0] != pair[1][0]]
    assert sorted(with_own, key=with_own.__getitem__)[-2:] == ["resnet50", "inception-v3"]
    assert max(others) < min(with_own["resnet50"], with_own["inception-v3"])


def test_three_replicas_of_a_model_serve_1_85_times_as_much_as_one() -> None:
    gains = [copies(model, 3) for model in ASSUMED.models]
    assert sum(gains) / len(gains) == pytest.approx(1.85, abs=0.01)


def test_every_model_gains_less_by_a_third_replica_than_by_a_second() -> None:
    for model in ASSUMED.models:
        one, two, three = (copies(model, count) for count in (1, 2, 3))
        assert three - two < two - one


def test_three_replicas_use_the_gpu_2_76_times_as_much_as_one() -> None:
    assert min(3 * ASSUMED.gpu_use, 1.0) / ASSUMED.gpu_use == pytest.approx(2.76, abs=0.05)


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("16ms", "16", "models.resnet50.latency.v100: 16 is a number; put it in quotes"),
        ("slo: 400ms", "slo: 0ms", "models.resnet50.slo: '0ms' must be longer than zero"),
        ("slo: 400ms", "sla: 400ms", "models.resnet50.sla: is not a field of this object"),
        ("batch: 8", "batch: 0", "models.resnet50.batch: 0 must be greater than or equal to 1"),
        ('"0.571"', '"1.2"', "models.resnet50.computeShare: '1.2' must be above 0 and at most 1"),
        ('c: "0.20"', 'c: "-0.2"', "interference[0].c: '-0.2' is not a decimal number"),
        ("32Gi", "32 GB", "gpus.v100.memory: '32 GB' is not a quantity"),
        ("nodes: 4", "nodes: 0", "gpus.v100.nodes: 0 must be greater than or equal to 1"),
        ("t4: 34ms", "a10: 34ms", "models: each must have a latency on every type of gpus, and on no other"),
        ("[resnet50, ssd-resnet50]", "[resnet50, resnet50]", "interference: must have one entry for each two models"),
        ('"98"', '"100"', "percentile: '100'"),
        ("models:", "models: [", "assumptions.yaml:"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_by_its_field(right: str, wrong: str, words: str) -> None:
    text = GIVEN.read_text(encoding="utf-8")
    assert right in text
    with pytest.raises(ValueError, match=r"assumptions\.yaml: ") as refused:
        parse(text.replace(right, wrong, 1))
    assert words in str(refused.value)


def test_sensitivity_scales_what_it_names_and_nothing_else() -> None:
    found = ASSUMED.scaled(interference=1.2, slower={"t4": 0.8})
    assert found.coefficient("resnet50", "resnet50") == pytest.approx(0.24)
    assert found.models["resnet50"].latency["t4"] == pytest.approx(0.0272)
    assert found.models["resnet50"].latency["v100"] == ASSUMED.models["resnet50"].latency["v100"]
