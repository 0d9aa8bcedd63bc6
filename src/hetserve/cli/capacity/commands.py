"""The commands of capacity: autoscale, compare, plan, search, simulate; what each does is imported when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from hetserve.cli import values
from hetserve.cli.capacity.effort import (
    batches,
    counts,
    deadline_option,
    effort_options,
    files_argument,
    joining_options,
    manifests_options,
    names_of,
    noise_option,
    numbers,
    output_options,
    policy_option,
    rate,
    rates,
    service_options,
    simulated_policy_option,
)
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES, default_dispatch_policy
from hetserve.registry.planners import OBJECTIVES, PLANNERS, SEARCH_METHODS, compared_for, default_planner, evaluating

if TYPE_CHECKING:
    from hetserve.demand import BatchMix


Changes = tuple[tuple[float, "BatchMix"], ...]


def _factors(texts: tuple[str, ...]) -> Mapping[str, float]:
    from hetserve.profiles.latency_factors import latency_factors  # noqa: PLC0415

    return latency_factors(texts)


def mix_changes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Changes:
    """Option callback: ``43200=normal:165,16``, each once, by their seconds."""
    found: dict[float, BatchMix] = {}
    for text in value:
        second, _, mix = text.partition("=")
        at = values.number(lambda n: n > 0, "SECOND=MIX, for example 43200=normal:165,16")(ctx, param, second)
        if at in found:
            raise click.BadParameter(f"second {at:g} is there twice", ctx, param)
        if (made := batches(ctx, param, mix)) is not None:
            found[at] = made
    return tuple(sorted(found.items(), key=lambda one: one[0]))


@click.command()
@files_argument
@click.option(
    "--load", "trace", metavar="TRACE.csv", required=True, help="Load over time: columns time_s (rising) and qps."
)
@service_options
@click.option(
    "--mix-change",
    "changes",
    metavar="SECOND=MIX",
    multiple=True,
    callback=mix_changes,
    help="From this second of the trace on, queries have these batch sizes, which are measured; MIX as of --batches. "
    "Repeatable.",
)
@click.option(
    "--latency-factor",
    "factors",
    metavar="[TYPE=]FACTOR",
    multiple=True,
    callback=values.parsed(_factors),
    help="How many times as long queries really take as profiles say; decisions see it in late queries only. "
    "Repeatable.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32), default=11, show_default=True, help="Of arrivals, sizes, service times."
)
@output_options
def autoscale(**options: Any) -> None:
    """Follow a load trace in virtual time, for every MinCost InferenceService in FILE..., as the operator would.

    The same core decides at each sample of the rates over spec.metrics.window (absent: 1m, a sample each 15 s), under
    the rules of spec.scaling (absent: their defaults) and spec.pause. What spec.mode Advise would advise is carried
    out, by the steps of an operator: old instances go as soon as what serves carries the plan, or first where budget or
    maxInstances leave no room for both. Instances serve after their type's launch time, and are paid from their launch
    until they go, which takes no time. Queries arrive as a Poisson process of the trace's rates, and each goes through
    the dispatch policy to an instance that serves then. Clients give up queries that wait for 15 s, which are late. How
    many are late is measured too: where profiles are wrong (--latency-factor), it asks for more instances. Types that
    share GPUs serve with every time multiplied by the greatest slow-down (--max-slowdown). There is no cluster: only
    maxInstances of the types and of spec.scaling, and the budget, bound the instances.

    A rate of the trace lasts until the next. Cells that are empty, nan, inf or negative are bad samples: nothing is
    measured there, and queries arrive as before. With --mix-change the mix of the last 10 minutes is measured too, and
    counts as in an operator; else all queries are of the declared mix.

    \b
    Keys of -o json and yaml: service, namespace, model, sloSeconds, percentile, seed, seconds (of the trace), queries,
      lateShare (share of queries later than the SLO, or never served), holds, dollars (of the whole trace),
      instanceHours {type: hours}, changes (of the plan, without the first), questions (that planners worked out),
      decisions [time (seconds of the trace), action, reason, from, to, load, hourlyCost, message; also holds, for
      other reasons than that the load is carried].
    \b
    Exit code: 0 the SLO's percentile holds over the trace, 3 it does not, 2 bad input.

    \b
    Examples:
      hetserve autoscale manifests/samples/hetsev.yaml --service resnet50 --load day.csv
      hetserve autoscale manifests/samples/hetsev.yaml --load day.csv --plot day.svg -o json
    """
    from hetserve.cli.capacity.autoscale import run  # noqa: PLC0415

    run(**options)


TRAINED_POLICIES: Final = ("fang-rl",)
DEFAULT_PLANNERS: Final = {objective: compared_for(objective) for objective in OBJECTIVES}
DEFAULT_POLICIES: Final = DISPATCH_POLICIES.names_of(lambda member: member.compared)


@click.command()
@manifests_options
@click.option(
    "--planners",
    metavar="A,B",
    callback=names_of(PLANNERS.names),
    help=f"Default: {','.join(DEFAULT_PLANNERS['MaxThroughput'])}; MinCost: {','.join(DEFAULT_PLANNERS['MinCost'])}.",
)
@click.option(
    "--policies",
    metavar="X,Y",
    callback=names_of(DISPATCH_POLICIES.names),
    help=f"Of {', '.join(DISPATCH_POLICIES.names)}; default: {','.join(DEFAULT_POLICIES)}.",
)
@effort_options(queries=20_000, seeds="3")
def compare(**options: Any) -> None:
    """Compare planners and dispatch policies for every InferenceService in FILE...

    Each planner's configuration is simulated under each policy. The answer is the highest load at which the SLO
    holds, for each pair.

    \b
    Exit code: 0 some planner has a feasible plan, 3 none has one, 2 bad input.

    \b
    Examples:
      hetserve compare manifests/samples/rm2.yaml
      hetserve compare manifests/samples/rm2.yaml --plot out.png --queries 100000
      hetserve compare manifests/samples/rm2.yaml --planners kairos,homogeneous --policies hetserve,fcfs -o json
    """
    from hetserve.cli.capacity.compare import run  # noqa: PLC0415

    run(**options)


def _enumerated(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


_DEFAULT: Final = {default_planner(objective): objective for objective in OBJECTIVES}
_DEFAULTS: Final = ", ".join(name if len(_DEFAULT) == 1 else f"{name} for {of}" for name, of in _DEFAULT.items())
_TRYING: Final = _enumerated(PLANNERS.names_of(lambda member: member.tries))
_SEEDED: Final = _enumerated(PLANNERS.names_of(lambda member: member.seeded))


@click.command()
@manifests_options
@click.option(
    "--planner",
    type=click.Choice(PLANNERS.names),
    help=f"Overrides spec.planner; default: {_DEFAULTS}, as in the operator.",
)
@click.option(
    "--policy",
    type=click.Choice(DISPATCH_POLICIES.names),
    help=f"{_TRYING}: try under this dispatch policy; overrides spec.dispatch.policy. Default without either: "
    f"{default_dispatch_policy()}. "
    f"{_enumerated(evaluating())}: evaluate by the full simulation under it "
    "instead of the quick one (slower: about a second per configuration).",
)
@click.option("--load", metavar="Q/S", callback=rate, help="Plan the least cost of this load (MinCost) instead.")
@click.option(
    "--min-instances",
    metavar="TYPE=N,...",
    callback=numbers,
    help="Least number of instances, whatever the load; overrides the types' minInstances.",
)
@click.option(
    "--saturation-threshold",
    metavar="SHARE",
    callback=values.threshold,
    help="ilp and greedy plan for load / SHARE; default: 0.8; 1 uses the whole capacity.",
)
@click.option(
    "--launch-weight",
    metavar="NUMBER",
    callback=values.weight,
    help="HetSev's lambda: weight of each second that an instance takes to launch; default: 1/3600.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32),
    help=f"Seed of the simulation by {_SEEDED}; with --policy the first of three seeds. Other "
    f"planners use no randomness. Default: 20231, with --policy 11; {_TRYING}: 20261.",
)
@click.option(
    "--frontier",
    is_flag=True,
    help="Also try what several budgets buy, beside HetSev's ILP, Kairos's pick and the best single type; --plot "
    "draws that instead.",
)
@output_options
def plan(**options: Any) -> None:
    """Decide which instance types to run, and how many of each, for every InferenceService in FILE...

    FILE is a manifest for kubectl apply (InferenceService, InstanceType and ModelProfile, in one or several
    files), a folder of manifests, or - for standard input. No cluster is needed: each type is available up to
    its maxInstances.

    \b
    Keys of -o json and yaml: service, model, objective, feasible, reason, message, planner,
      counts {type: instances}, cost ($/h, as text), boundQPS (capacityQPS for the least cost),
      scaledQPS (homogeneous: if the whole budget were spent),
      simulatedQPS, evaluated and seed (planners that simulate), runnerUp {counts, cost, boundQPS, why},
      maxSlowdown (that service times allow for; null: no GPU is shared),
      types {type on a GPU: {tenancy, gpuMemoryMiB, gpuCompute (percent), slowdown, why}},
      sharing {planner, exclusive, shared {counts, cost, qps}} or null,
      ranking [the ten best], refusals [subject, reason], verdict,
      nextStep {extra ($/h more), gainQPS, counts, cost, proven} or null.
    \b
    Only of planner flow: tried (in simulation), heldQPS (proved), ceilingQPS or floorCost (no mix holds more, or
      costs less), flow [type, first, last (batches), qps], cheaper {counts, cost, simulatedQPS, breaksAtQPS},
      prices {perInstanceQPS {type: q/s}, perDollarQPS, bestType, perQPS ($/h), binding {first, last, queries,
      price, type}}.
    With --frontier: frontier [budget, ceilingQPS, planners {name: {counts, cost, boundQPS, simulatedQPS}}].
    Several services: a list under items.

    \b
    Exit code: 0 every plan is feasible, 3 some service has no feasible plan, 2 bad input.

    \b
    Examples:
      hetserve plan manifests/samples/rm2.yaml
      hetserve plan manifests/samples/rm2.yaml --budget 5 --slo 400ms -o json
      hetserve plan manifests/samples/rm2.yaml --planner kairos-plus --policy hetserve
      hetserve plan manifests/samples/rm2.yaml --load 100
      hetserve plan manifests/samples/hetsev.yaml --max-slowdown 1.4
      hetserve plan manifests/samples/rm2.yaml --min-instances g4dn.xlarge=2 --seed 7
      hetserve plan manifests/samples/hetsev.yaml --plot plans.png
      hetserve plan manifests/samples/rm2.yaml --frontier --plot frontier.png
      hetserve plan types.yaml profiles/ service.yaml --planner ilp
      cat *.yaml | hetserve plan - --service resnet50
    """
    from hetserve.cli.capacity.plan.result import run  # noqa: PLC0415

    run(**options)


GUIDED: Final = "kairos-plus"
_METHODS: Final = (GUIDED, *SEARCH_METHODS.names)


@click.command()
@manifests_options
@click.option(
    "--method",
    "methods",
    metavar="A,B",
    default=GUIDED,
    show_default=True,
    callback=names_of(_METHODS),
    help=f"One or several of {', '.join(_METHODS)}.",
)
@policy_option
@click.option(
    "--evaluations",
    type=click.IntRange(1, 100_000),
    default=40,
    show_default=True,
    help="Most configurations to evaluate.",
)
@click.option("--search-seed", type=click.IntRange(0, 2**32), default=0, show_default=True, help="Seed of the method.")
@click.option("--no-pruning", is_flag=True, help="Also evaluate configurations that are contained in an evaluated one.")
@effort_options(queries=20_000, seeds="3")
def search(methods: tuple[str, ...], **options: Any) -> None:
    """Search the configurations within the budget of every InferenceService in FILE... by simulating them.

    kairos-plus follows the upper bound and stops when no other bound exceeds the best result. The other methods
    are those of the paper's comparison. All methods share simulated results.

    \b
    Exit code: 0 some configuration holds the SLO at some load, 3 no evaluated one does, 2 bad input.

    \b
    Examples:
      hetserve search manifests/samples/rm2.yaml
      hetserve search manifests/samples/rm2.yaml --method kairos-plus,genetic --evaluations 20 --plot out.png
      hetserve search manifests/samples/rm2.yaml --method random --search-seed 7 --policy kairos -o json
    """
    for needed in {member.needs for member in SEARCH_METHODS if member.name in methods and member.needs}:
        import_module(needed)
    from hetserve.cli.capacity.search import run  # noqa: PLC0415

    run(methods, **options)


@click.command()
@manifests_options
@click.option(
    "--counts",
    metavar="TYPE=N,...",
    callback=counts,
    help="Instances, for example g4dn.xlarge=1,r5n.large=13; default: those of the plan.",
)
@simulated_policy_option
@click.option(
    "--rate", metavar="Q/S", callback=rate, help="Load to offer; default with recorded arrivals: as recorded."
)
@click.option("--find-allowable", is_flag=True, help="Find the highest load at which the SLO holds.")
@click.option(
    "--together", is_flag=True, help="Place the plans of all services on --nodes and play their loads at once."
)
@click.option("--nodes", metavar="FILE", help="Kubernetes Nodes for --together, as kubectl get nodes -o yaml writes.")
@joining_options
@effort_options(queries=100_000, seeds="1 with --rate, 3 with --find-allowable")
def simulate(**options: Any) -> None:
    """Simulate a configuration for every InferenceService in FILE..., at one load or at the highest that holds.

    Service times vary as the profiles say. Arrivals are a Poisson process unless --arrivals says otherwise. The same
    seeds give the same answer.

    With three or more seeds, a load is allowed if the upper 95 % confidence limit of the share of late queries is
    within the percentile. With fewer, the share itself must be, for each seed. In both cases the backlog must not
    grow without end. Runs last at least 20 times the SLO; --queries is raised if necessary. Recorded arrivals are
    replayed as recorded, or stretched to --rate; for them only late queries count.

    A policy that joins queries serves a model with variants (spec.model.variants): several queries at once, by one of
    the variants. In time is an answer within the SLO; from there until --deadline its worth falls to nothing.

    Types that share GPUs are simulated with every service time multiplied by the greatest slow-down (--max-slowdown):
    what the plan promises beside any neighbours. With --together service times are those of an instance alone, and
    instances that share a GPU slow each other, by spec.computeShare and spec.interference of the profiles. Instances of
    a profile without them have a GPU of their own. Each service gets its declared load, or what its plan states;
    --queries counts per service on average.

    \b
    Keys of -o json and yaml with --together: service, namespace, model, counts {type: instances}, offeredQPS,
      sloSeconds, percentile, holds, backlogGrows, violationRatio (share of late queries), unmeasuredShares [types],
      stretch {mean, p99, most} (service time / that alone; null: nothing served),
      maxSlowdown and types (as of hetserve plan), withinMaxSlowdown (null: no GPU is shared),
      exclusiveGPUs (of a plan that carries as much with a GPU for each instance, at any cost; null: there is none),
      instances [type, tenancy, node, gpu, notPlaced (why, or null)], seeds,
      runs [a seed each: inTime, queries, violations, violationRatio, unserved, latencySeconds {p50, ...}, stretch].
    \b
    Keys of -o json and yaml where queries are joined: service, model, policy, counts, cost, offeredQPS, sloSeconds,
      deadlineSeconds, percentile, ceilingQPS, holds, unstable, attainment (share of queries in time),
      meanAccuracy (percent, of the queries in time; null: none was), meanUtility and utilityDeviation (over all
      queries), shareByVariant {variant: share of the answers}, meanJoined (items served together; null: none),
      switches, drops, noise, margin, queries, warmUp, arrivals, seeds, maxSlowdown and types (as of hetserve plan),
      utilisation {type: share},
      runs [a seed each: the same, and as of other policies].
    \b
    Exit code: 0 the SLO holds (at the given load, or at some load), 3 it does not, 2 bad input.

    \b
    Examples:
      hetserve simulate manifests/samples/rm2.yaml --rate 120
      hetserve simulate manifests/samples/rm2.yaml --find-allowable --queries 20000
      hetserve simulate manifests/samples/rm2.yaml --find-allowable --policy kairos --counts g4dn.xlarge=4
      hetserve simulate manifests/samples/rm2.yaml --rate 120 --batches normal:165,16 --plot out.png -o json
      hetserve simulate manifests/samples/rm2.yaml --arrivals queries.csv --warm-up 1000
      hetserve simulate manifests/samples/hetsev.yaml --together --nodes nodes.yaml
      hetserve reference fang | hetserve simulate - --policy max-batch --rate 30 --noise 0.03
    """
    from hetserve.cli.capacity.simulate import run  # noqa: PLC0415

    run(**options)


@click.command()
@files_argument
@service_options
@click.option(
    "--counts",
    metavar="TYPE=N,...",
    callback=counts,
    help="Instances to train for, for example g2.2xlarge=5,p2.xlarge=5; default: those of the plan.",
)
@click.option(
    "--policy",
    type=click.Choice(TRAINED_POLICIES),
    default=TRAINED_POLICIES[0],
    show_default=True,
    help="Policy to train.",
)
@click.option(
    "--rates",
    metavar="LOW,HIGH",
    callback=rates,
    help="Loads to train at, in queries/s; default: 72 to 98.5 % of what the most accurate variant can serve.",
)
@deadline_option
@noise_option
@click.option("--updates", type=click.IntRange(1, 100_000), default=600, show_default=True, help="Of the weights.")
@click.option("--seed", type=click.IntRange(0, 2**32), default=11, show_default=True, help="Of all that is drawn.")
@click.option("-o", "--output", metavar="FILE", help="Where the weights go; default: standard output.")
def train(**options: Any) -> None:
    """Train a dispatch policy for the service with variants in FILE... on the simulator.

    The policy is tried on random loads that come second by second, as mobile clients send them. After each update of
    its weights it is tried again. One seed always brings the same weights. They are for this fleet: the types, how many
    instances of each, the variants, by name, and the SLO and hard deadline; simulate --weights FILE serves by them. A
    query has one item. On one core it takes a minute or two.

    \b
    Keys of the JSON that is written: policy, seed, fleet {type: instances}, variants, sizes (items together),
      sloSeconds, deadlineSeconds (the hard one), network (inner, inner_bias, outer, outer_bias).
    \b
    Exit code: 0 trained, 3 the service has no plan, 2 bad input.

    \b
    Examples:
      hetserve train yolo.yaml --counts p2.xlarge=1 --seed 3 -o one.json
      hetserve train yolo.yaml --counts g2.2xlarge=5,p2.xlarge=5 --rates 185,250 -o ten.json
    """
    from hetserve.cli.capacity.joined.train import run  # noqa: PLC0415

    run(**options)
