"""What `hetserve train` does: weights of a policy, learned on the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests, read_manifests
from hetserve.cli.capacity.joined.play import JoinedOptions, system_of
from hetserve.cli.capacity.services import Overrides, answered, choose, each, finish, planned, problem_of
from hetserve.cli.capacity.simulate import configuration
from hetserve.cli.output.progress import steps
from hetserve.cli.output.streams import refuse, write_or_print
from hetserve.cli.output.terminal import Block
from hetserve.dispatch.joining.weights import PolicyWeights
from hetserve.planning import Problem
from hetserve.training.course import LOADS, Progress, TrainingCourse, train
from hetserve.training.rollouts import TrainedFleet

_OVERRIDES = ("budget", "slo", "percentile", "mix", "max_slowdown")


def run(files: tuple[str, ...], service: str | None, **options: Any) -> None:
    """The command, with its options."""
    overrides = Overrides(**{name: options[name] for name in _OVERRIDES})

    manifests = read_manifests(files)
    services = choose(manifests, service, files)
    if len(services) > 1:
        refuse(f"{len(services)} services in the input: name the one to train for by --service")

    def trained(one: InferenceService) -> PolicyWeights:
        return _trained(one, planned(problem_of(one, manifests, overrides)), manifests, options)

    found = each(services, trained)
    for weights in answered(found):
        _write(weights, options["output"])
    if not answered(found):
        finish(found, "table", None, PolicyWeights.as_json, _no_block, lambda *_: None)


def _trained(
    service: InferenceService, problem: Problem, manifests: Manifests, options: dict[str, Any]
) -> PolicyWeights:
    name = str(service.metadata.name)
    if service.spec.model.variants is None:
        refuse(f"{name}: spec.model.variants names no variants to choose among; nothing is to be learned")
    _check_mix(name, problem, declared=options["mix"] is None)
    problem, counts = configuration(name, problem, options["counts"])
    held = {one: n for one, n in counts.items() if n}
    asked = JoinedOptions(options["policy"], deadline=options["deadline"], noise=options["noise"])
    fleet = TrainedFleet(system_of(service, problem, manifests, asked).present(held), held)
    low, high = options["rates"] or (load * fleet.capacity for load in LOADS)
    course = TrainingCourse(updates=options["updates"], loads=(low / fleet.capacity, high / fleet.capacity))
    _check_output(options["output"])
    with steps(f"{name}: {options['policy']}", course.updates) as shown:

        def told(progress: Progress) -> None:
            shown.done(f"{progress.quality:.3f} of the worth at {progress.rate:.4g} q/s")

        try:
            return train(fleet, options["seed"], course, told)
        except ValueError as error:
            refuse(f"--rates {low:.6g},{high:.6g}: {error}")


def _check_mix(name: str, problem: Problem, *, declared: bool) -> None:
    """Rollouts are of queries of one item: others are not to be ignored."""
    if problem.mix.batches != (1,):
        where, right = (
            ("spec.load.batchSizes", "declare {batch: 1, weight: 1}") if declared else ("--batches", "leave it out")
        )
        items = ", ".join(map(str, problem.mix.batches[:4])) + (", ..." if len(problem.mix.batches) > 4 else "")
        refuse(f"{name}: {where}: queries of {items} items: training knows queries of one item; {right}")


def _check_output(output: str | None) -> None:
    """Before minutes of training."""
    if output is None:
        return
    path = Path(output)
    try:
        new = not path.exists()
        path.open("a", encoding="utf-8").close()
        if new:
            path.unlink()
    except OSError as error:
        refuse(f"-o {output}: cannot be written: {error.strerror}")


def _write(weights: PolicyWeights, output: str | None) -> None:
    write_or_print(json.dumps(weights.as_json(), allow_nan=False) + "\n", output)


def _no_block(weights: PolicyWeights) -> Block:
    return Block(f"{weights.fleet}", ())
