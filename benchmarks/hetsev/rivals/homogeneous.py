"""An autoscaler for each service on one GPU type alone: Kubernetes without the paper's random choice of types.

A node selector fixes the type; queries wait in one queue for whichever instance is free, as all are alike.
"""

from __future__ import annotations

from benchmarks.hetsev.policy import Controller
from benchmarks.hetsev.rivals.kubernetes import Kubernetes, Setting
from benchmarks.hetsev.scene import Scene

from hetserve.dispatch import make_policy


def homogeneous(type_name: str, setting: Setting, scene: Scene) -> Controller:
    types = dict.fromkeys(scene.models, type_name)
    return Kubernetes(scene, setting, types=types, name=f"hpa-{type_name}", dispatch=make_policy("fcfs"))
