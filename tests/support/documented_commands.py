"""Every command line that README.md and docs/*.md show in a block of code, and what runs it.

The one table of it: a command that is new in a page gets a row here, in the first class that can run it, and a row goes
with the last page that shows it (tests/packaging/test_documented_commands_are_run.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from documented import PAGES, commands

OFFLINE: Final = (
    ".venv/bin/hetserve plan manifests/samples/rm2.yaml",
    "hetserve autoscale services.yaml --load day.csv --plot day.svg",
    "hetserve autoscale services.yaml --load day.csv --latency-factor 1.3",
    "hetserve compare manifests/samples/rm2.yaml --planners flow,homogeneous --policies hetserve,kairos -o json",
    "hetserve compare manifests/samples/rm2.yaml --plot compare.png",
    "hetserve compare mt-wnd.yaml --planners flow,kairos,homogeneous --plot mt-wnd.png",
    "hetserve completion fish > ~/.config/fish/completions/hetserve.fish",
    'hetserve completion zsh > "${fpath[1]}/_hetserve"',
    "hetserve placement replay dump.json",
    "hetserve placement replay dump.json --policy BestFit",
    "hetserve plan manifests/samples/hetsev.yaml --service transformer --budget 1",
    "hetserve plan manifests/samples/hetsev.yaml --service transformer --planner ilp",
    "hetserve plan manifests/samples/rm2.yaml",
    "hetserve plan manifests/samples/rm2.yaml --budget 0.3",
    "hetserve plan manifests/samples/rm2.yaml --frontier --plot frontier.png",
    "hetserve plan manifests/samples/rm2.yaml --load 100",
    "hetserve plan manifests/samples/rm2.yaml --plot plan.png",
    "hetserve profile fit runs.csv --model resnet50 --instance-type t4 --sharing-mode MPS --gpu-memory 3Gi"
    " > profile.yaml",
    "hetserve profile fit runs.csv --model resnet50 --instance-type t4 --sharing-mode MPS -o table --plot fit.png",
    "hetserve profile fit samples.csv --model rm2 --instance-type g4dn.xlarge --plot fit.png > profile.yaml",
    "hetserve reference fang -o fang.yaml",
    "hetserve reference kairos --data DIR --model MT-WND -o mt-wnd.yaml",
    "hetserve search manifests/samples/rm2.yaml --evaluations 20",
    "hetserve search manifests/samples/rm2.yaml --method kairos-plus,genetic,bayesian --evaluations 20"
    " --plot search.png",
    "hetserve simulate fang.yaml --counts g2.2xlarge=5,p2.xlarge=5 --rate 230 --noise 0.03 --policy fang-rl"
    " --weights weights.json",
    "hetserve simulate fang.yaml --rate 25 --noise 0.03 --policy max-batch --plot variants.png",
    "hetserve simulate fang.yaml --rate 25 --noise 0.03 --policy rate-fit",
    "hetserve simulate manifests/samples/rm2.yaml --find-allowable --counts g4dn.xlarge=4 --policy kairos",
    "hetserve simulate manifests/samples/rm2.yaml --find-allowable --plot held.png",
    "hetserve simulate manifests/samples/rm2.yaml --rate 120",
    "hetserve simulate services.yaml --together --nodes nodes.yaml",
    "hetserve train fang.yaml --counts g2.2xlarge=5,p2.xlarge=5 --noise 0.03 --seed 3 -o weights.json",
    "hetserve why waiting --from dump.json",
    "source <(hetserve completion bash)",
)
"""Commands of hetserve that need no cluster."""

FIRST_HOUR: Final = (
    "POD=$(kubectl get pods -l hetserve.io/service=hello -o jsonpath='{.items[0].metadata.name}')",
    "curl -i -K .demo/curlrc --json"
    ' \'{"inputs": [{"name": "x", "shape": [3], "datatype": "INT64", "data": [1, 2, 3]}]}\''
    " http://hello.default/v2/models/hello/infer",
    "export KUBECONFIG=$PWD/.demo/kubeconfig PATH=$PWD/.demo/bin:$PWD/.venv/bin:$PATH",
    "hetserve explain hello",
    "hetserve gpus",
    "hetserve plan manifests/first",
    "hetserve plan manifests/first --load 150",
    'hetserve why "$POD"',
    "kubectl apply -f manifests/first",
    "kubectl delete -f manifests/first",
    "kubectl describe hisvc hello",
    "kubectl get hisvc hello",
    "kubectl get nodes -L node.kubernetes.io/instance-type,nvidia.com/gpu.product",
    "kubectl get pods -l hetserve.io/service=hello -o wide",
    'kubectl patch hisvc hello --type merge -p \'{"spec": {"load": {"expectedQPS": 150}}}\'',
    "kubectl wait hisvc/hello --for=condition=Ready --timeout=2m",
    "make demo",
    "make demo-down",
)
"""The blocks of docs/getting-started.md, which are run whole; what other pages show of them is run there, too."""


class Stage(StrEnum):
    """States of a real control plane, one after the other."""

    INSTALLING = "nothing is installed; what is installed goes again"
    AS_PODS = "the chart's Deployments are there, as pods that nobody runs"
    LOOKING = "the components run as processes, one service is placed and one is Stalled"
    RELEASING = "the extender is stopped, and pods wait at the gate"
    SERVING = "the extender is stopped, and processes that serve are started as the pages say"
    GOING = "the release is upgraded, rolled back and uninstalled"


_INSTALL: Final = "helm install hetserve charts/hetserve --namespace hetserve-system --create-namespace"
_IMAGES: Final = " ".join(
    f"--set {name}.image.repository=registry.example/me/hetserve/{name}" for name in ("operator", "extender", "router")
)
ON_A_CLUSTER: Final[Mapping[Stage, tuple[str, ...]]] = {
    Stage.INSTALLING: (_INSTALL, f"{_INSTALL} --values values.yaml"),
    Stage.AS_PODS: (
        f"{_INSTALL} --wait {_IMAGES}",
        "kubectl -n hetserve-system rollout restart deployment",
        "kubectl --namespace hetserve-system scale deployment hetserve-scheduler --replicas=0",
        "kubectl --namespace hetserve-system wait --for=delete pod --selector app.kubernetes.io/component=scheduler"
        " --field-selector status.phase!=Failed,status.phase!=Succeeded",
    ),
    Stage.LOOKING: (
        "hetserve wait NAME --timeout 10m",
        "kubectl wait hisvc/NAME --for=condition=Ready --timeout=10m",
        "kubectl wait hisvc/NAME --for=condition=Stalled --timeout=1m",
        "hetserve why resnet50-hetsev-t4-cb1947-6b5f45f4cf-2xw4m --log $LOG",
        "hetserve explain resnet50 -n team",
        "kubectl get configmap resnet50-decisions -n team -o json | hetserve decision replay -",
        "hetserve queue",
        "hetserve queue -n team -o wide",
        "kubectl get lease hetserve-scheduler --namespace hetserve-system",
        "kubectl get lease hetserve-operator --namespace hetserve-system",
        "hetserve placement dump -o dump.json",
        "kubectl get nodes -o yaml > nodes.yaml",
        "kubectl apply -f profile.yaml",
        "kubectl annotate node gpu-7 hetserve.io/gpus='["
        ' {"uuid": "GPU-5c1e", "product": "Tesla-T4", "memoryMiB": 15360},'
        ' {"uuid": "GPU-9a02", "product": "Tesla-V100-PCIE-32GB", "memoryMiB": 32768, "healthy": false}]\'',
        "kubectl annotate node gpu-7 hetserve.io/gpus='["
        ' {"uuid": "MIG-5c1e0a6e-0000-5b1e-8b9e-0c4f6f5d3c11", "product": "A100-1g.5gb", "memoryMiB": 4864}]\'',
        "hetserve doctor",
    ),
    Stage.RELEASING: (
        "hetserve queue release my-pod",
        'kubectl patch pod my-pod --type=json -p \'[{"op": "remove", "path": "/spec/schedulingGates/0"}]\'',
        "hetserve queue release --all",
    ),
    Stage.SERVING: (
        "hetserve-extender --config settings.yaml --kubeconfig FILE --port 8888 --probe-port 8889",
        "hetserve-twin --kubeconfig ~/.kube/config --load default/rm2=day.csv --speed 288"
        " --latency-factor g4dn.xlarge=1.2",
    ),
    Stage.GOING: (
        "kubectl get instancetypes,modelprofiles,inferenceservices -A -o yaml > hetserve-objects.yaml",
        "helm upgrade hetserve charts/hetserve --namespace hetserve-system --reset-then-reuse-values --wait"
        " --timeout 5m",
        "kubectl apply --server-side -f crds/",
        "helm rollback hetserve --namespace hetserve-system --wait --timeout 5m",
        "helm uninstall hetserve --namespace hetserve-system --wait",
    ),
}
"""In the order in which they are run there."""

ON_THE_DEMO: Final = (
    ".venv/bin/python -m harness.demo freeze operator",
    ".venv/bin/python -m harness.demo status",
    ".venv/bin/python -m harness.demo thaw operator",
    "export PYTHONPATH=e2e",
)

ON_KIND: Final = ("helm test hetserve --namespace hetserve-system --logs --timeout 2m",)
"""Those that need containers which run."""

_NEEDS_AN_ENGINE: Final = "needs a container engine; `make e2e-kind` builds the same images by images.build"
_WORKER: Final = "serves until it is ended; tests/unit/worker/test_worker_process.py runs its like on free ports"
_ROUTER: Final = "serves until it is ended; tests/unit/router/test_router_process.py runs its like on free ports"
NOT_RUN: Final[Mapping[str, str]] = {
    "cosign verify REGISTRY/hetserve/operator:VERSION --certificate-identity-regexp"
    " '^https://github.com/OWNER/REPOSITORY/.github/workflows/release.yml@refs/tags/v'"
    " --certificate-oidc-issuer https://token.actions.githubusercontent.com": "there is no release to verify yet",
    "make demo-load": "takes five minutes; e2e/test_demo.py plays a shorter load by the same module",
    'make demo-load FLAGS="--seconds 120 --load mine.csv --out mine.svg"': (
        "takes two minutes; e2e/test_demo.py plays a shorter load, with --load and --out, by the same module"
    ),
    "make images": _NEEDS_AN_ENGINE,
    "make images REGISTRY=registry.example/me": _NEEDS_AN_ENGINE,
    "make images-report": "needs a container engine with the images",
    "make test": "is what runs these tests",
    "pip install 'hetserve[twin]'": "needs a release on an index, and there is none yet",
    "pip install 'hetserve[worker]'": "needs a release on an index, and there is none yet",
    "hetserve-worker --model digits --listen 127.0.0.1:9000": _WORKER,
    "hetserve-worker --model echo --name rm2 --listen 127.0.0.1:9001 --listen 127.0.0.1:9002 --profile rm2.yaml"
    " --instance-type g4dn.xlarge --seed 7": _WORKER,
    "curl http://127.0.0.1:9000/v2/models/digits": _WORKER,
    "pip install 'hetserve[router,worker]'": "needs a release on an index, and there is none yet",
    "hetserve-worker --model echo --name rm2 --listen 127.0.0.1:9100": _ROUTER,
    "hetserve-router --manifests manifests/samples/rm2.yaml --instances instances.yaml --port 9000": _ROUTER,
    "hetserve profile learned rm2 --url http://127.0.0.1:8891 -o table": (
        "asks a router; tests/unit/router/test_router_observed.py asks one on a free port"
    ),
    'curl --json \'{"inputs": [{"name": "x", "shape": [3], "datatype": "INT64", "data": [1, 2, 3]}]}\''
    " -H 'Host: rm2.default' http://127.0.0.1:9000/v2/models/rm2/infer": _ROUTER,
}
"""With the reason."""

CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/packaging/test_documented_commands_run.py": OFFLINE,
    "e2e/test_the_first_hour_works.py": FIRST_HOUR,
    "e2e/test_documented_commands_run_on_a_cluster.py": tuple(row for rows in ON_A_CLUSTER.values() for row in rows),
    "e2e/test_demo.py": ON_THE_DEMO,
    "e2e/kind/test_helm_test_places_a_pod.py": ON_KIND,
    "nowhere": tuple(NOT_RUN),
}
"""Commands by the test that runs them."""


def in_the_docs() -> dict[str, list[str]]:
    """Names of the pages that show it, by command."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        for command in commands(page.read_text(encoding="utf-8")):
            found.setdefault(command, []).append(page.name)
    return found


def amiss(shown: Mapping[str, Iterable[str]], classes: Mapping[str, Iterable[str]]) -> list[str]:
    """What does not fit between the pages and the table, each with what to do.

    shown: pages by command. classes: commands by what runs them.
    """
    rows = Counter(command for listed in classes.values() for command in listed)
    found = [
        f"{', '.join(sorted(set(pages)))} shows `{command}`, and no test runs it: add it to the first class of "
        "tests/support/documented_commands.py that can run it"
        for command, pages in shown.items()
        if command not in rows
    ]
    found += [
        f"no page shows `{command}`: take it out of tests/support/documented_commands.py, or mend it if the page's "
        "command has changed"
        for command in rows
        if command not in shown
    ]
    return found + [f"`{command}` is in {count} classes: keep one" for command, count in rows.items() if count > 1]
