"""`hetserve simulate`: simulates a configuration under load."""

from __future__ import annotations

from typing import Any

import click

from hetserve.cli.capacity.effort import counts, effort_options, manifests_options, policy_option, rate


@click.command()
@manifests_options
@click.option(
    "--counts",
    metavar="TYPE=N,...",
    callback=counts,
    help="Instances, for example g4dn.xlarge=1,r5n.large=13; default: those of the plan.",
)
@policy_option
@click.option(
    "--rate", metavar="Q/S", callback=rate, help="Load to offer; default with recorded arrivals: as recorded."
)
@click.option("--find-allowable", is_flag=True, help="Find the highest load at which the SLO holds.")
@click.option(
    "--together", is_flag=True, help="Place the plans of all services on --nodes and play their loads at once."
)
@click.option("--nodes", metavar="FILE", help="Kubernetes Nodes for --together, as kubectl get nodes -o yaml writes.")
@effort_options(queries=100_000, seeds="1 with --rate, 3 with --find-allowable")
def simulate(**options: Any) -> None:
    """Simulate a configuration for every InferenceService in FILE..., at one load or at the highest that holds.

    Service times vary as the profiles say. Arrivals are a Poisson process unless --arrivals says otherwise. The same
    seeds give the same answer.

    With three or more seeds, a load is allowed if the upper 95 % confidence limit of the share of late queries is
    within the percentile. With fewer, the share itself must be, for each seed. In both cases the backlog must not
    grow without end. Runs last at least 20 times the SLO; --queries is raised if necessary. Recorded arrivals are
    replayed as recorded, or stretched to --rate; for them only late queries count.

    Types that share GPUs are simulated with every service time multiplied by the greatest slow-down (--max-slowdown):
    what the plan promises beside any neighbours. With --together service times are those of an instance alone, and
    instances that share a GPU slow each other, by spec.computeShare and spec.interference of the profiles. Instances of
    a profile without them have a GPU of their own. Each service gets its declared load, or what its plan states;
    --queries counts per service on average.

    \b
    Keys of -o json and yaml with --together: service, namespace, model, counts {type: instances}, offeredQPS,
      sloSeconds, percentile, holds, violationRatio (share of late queries), unmeasuredShares [types],
      stretch {mean, p99, most} (service time / that alone; null: nothing served),
      maxSlowdown and types (as of hetserve plan), withinMaxSlowdown (null: no GPU is shared),
      instances [type, tenancy, node, gpu, notPlaced (why, or null)], seeds,
      runs [a seed each: holds, queries, violations, violationRatio, unserved, backlogGrows,
      latencySeconds {p50, ...}, stretch].
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
    """
    from hetserve.cli.capacity.simulate.result import run  # noqa: PLC0415

    run(**options)
