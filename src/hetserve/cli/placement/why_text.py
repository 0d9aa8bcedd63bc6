"""The answer of `hetserve why` for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.table import Table

from hetserve.cli.output.terminal import Block, counted, duration_text, grid, styled
from hetserve.cli.placement.placed import free_compute

MOST: Final = 24
"""GPUs listed; others are counted."""
Json = Mapping[str, Any]


def blocks(answer: Json, *, every: bool) -> list[Block]:
    pod = answer["pod"]
    lines = [("asks", _asks(answer))] if "asks" in answer else []
    lines.append(("state", answer["message"]))
    lines += [("decided", text) for text in answer.get("decided", ())]
    if answer.get("holds"):
        lines += _holds(answer["holds"], compute=_declares(answer))
    if "decision" in answer:
        lines += _waiting(answer)
    lines += [("problem", problem) for problem in answer.get("problems", ())]
    table = _table(answer["gpus"], every=every, compute=_declares(answer)) if answer.get("gpus") else None
    return [Block(f"pod {pod['namespace']}/{pod['name']}", tuple(lines), () if table is None else (table,))]


def _declares(answer: Json) -> bool:
    """Whether the pod declares compute: else nothing is shown of it, but for what is in its way."""
    return answer.get("request", {}).get("computePercent") is not None


def _asks(answer: Json) -> str:
    request = answer["request"]
    parts = [answer["asks"]]
    parts += [f"model {request['model']}"] if request["model"] else ["no model, so it may lie beside anything"]
    parts += [f"GPU {request['accepts']}"] if request["accepts"] else []
    parts += ["shares GPUs with its own model where that allows it too"] if request["antiAffinity"] == "None" else []
    parts += [f"policy {request['policy']}"] if request["policy"] else []
    return ", ".join(parts)


def _holds(holds: Json, *, compute: bool) -> list[tuple[str, str]]:
    lines = []
    for gpu in holds["gpus"]:
        if gpu["gpu"] is None:
            lines.append(("gpu", "not named: the node takes no new pods until the pod names it or ends"))
            continue
        if gpu["product"] is None:
            lines.append(("gpu", f"{gpu['gpu']}: not in the inventory of the node"))
            continue
        free = f"{gpu['freeMiB']} of {gpu['memoryMiB']} MiB free"
        free += f", {free_compute(gpu)} percent of compute free" if compute else ""
        lines.append(("gpu", f"{gpu['gpu']}: {gpu['product']}, {free}{'' if gpu['healthy'] else ', unhealthy'}"))
        lines += [] if gpu["sharing"] is None else [("slowed", _slowed(gpu["sharing"]))]
    beside = [f"{pod['namespace']}/{pod['name']} ({_neighbour(pod)})" for pod in holds["beside"]]
    unknown = [] if holds["allNamed"] else ["whoever else is on a GPU that it does not name"]
    return [*lines, ("beside", ", ".join([*beside, *unknown]) or "nobody")]


def _slowed(sharing: Json) -> str:
    tolerates = f"it tolerates {sharing['tolerance']}"
    if sharing["slowdown"] is None:
        return f"nobody knows how much: pods without terms are beside it; {tolerates}"
    return f"at most {sharing['slowdown']} times as long as alone, whatever those beside it do; {tolerates}"


def _neighbour(pod: Json) -> str:
    return (pod["model"] or "no model") + ("" if pod["adds"] is None else f", adds {pod['adds']}")


def _waiting(answer: Json) -> list[tuple[str, str]]:
    decision, queue, scheduler = answer["decision"], answer["queue"], answer["scheduler"]
    lines = []
    if queue is not None:
        lines.append(("queue", _queue(queue)))
    if scheduler["message"]:
        lines.append(("scheduler", scheduler["message"]))
    if not scheduler["ours"]:
        lines.append(("problem", f"schedulerName is {scheduler['name']}; GPUs of ours need hetserve-scheduler"))
    if decision["chosen"] is not None:
        lines.append(("would get", f"{decision['why']} (policy {decision['policy']})"))
    else:
        lines += [("refused", f"{counted(one['nodes'], 'node')}: {one['reason']}") for one in decision["refusals"]]
    if answer["notJudged"]:
        lines.append(("not judged", f"{', '.join(answer['notJudged'])}: the kube-scheduler looks at these too"))
    return lines


def _queue(queue: Json) -> str:
    waited = f"waits for {duration_text(queue['waitedSeconds'])}"
    older = f"{queue['older']} of {queue['samePriority']} at the gate with its priority are older"
    higher = f", {queue['higherPriority']} have a higher priority" if queue["higherPriority"] else ""
    bound = f"out within {queue['releasedWithin']} releases of its priority (beta {queue['beta']})"
    return (
        f"{waited}; {older}{higher}; {bound}, sooner where the queues' credits, which the extender alone knows, say so"
    )


def _table(gpus: Sequence[Json], *, every: bool, compute: bool) -> Table:
    table = grid("NODE", "GPU", "PRODUCT", ">FREE MIB", *([">FREE %"] if compute else []), "WHY NOT")
    ranked = sorted(gpus, key=lambda gpu: (not gpu["chosen"], len(gpu["reasons"])))
    shown = ranked if every else ranked[:MOST]
    for gpu in shown:
        fits = styled("fits, would be taken" if gpu["chosen"] else "fits", "bold green" if gpu["chosen"] else "green")
        why = fits if gpu["fits"] else "; ".join(reason["text"] for reason in gpu["reasons"])
        table.add_row(
            gpu["node"], gpu["gpu"], gpu["product"], str(gpu["freeMiB"]), *([free_compute(gpu)] if compute else []), why
        )
    left = ranked[len(shown) :]
    if left:
        kinds = Counter(gpu["reasons"][0]["kind"] if gpu["reasons"] else "fits" for gpu in left)
        counted = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        table.add_row(f"{len(left)} more", *[""] * (4 if compute else 3), styled(f"{counted}; --all lists them", "dim"))
    return table
