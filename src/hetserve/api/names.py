"""Every name that hetserve puts on the wire: group, labels, annotations, resources, gate."""

from __future__ import annotations

from typing import Final

GROUP: Final = "hetserve.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "hetserve.io/v1alpha1"
FIELD_MANAGER: Final = "hetserve-operator"
SYSTEM_NAMESPACE: Final = "hetserve-system"
SCHEDULER_NAME: Final = "hetserve-scheduler"
QUEUE_GATE: Final = f"{GROUP}/queue"

LABEL_SERVICE: Final = f"{GROUP}/service"
LABEL_MODEL: Final = f"{GROUP}/model"
LABEL_INSTANCE_TYPE: Final = f"{GROUP}/instance-type"
LABEL_LEADER: Final = f"{GROUP}/leader"
"""On the pod of the extender that leads, with the value "true": the Service selects it."""
LABEL_FENCE: Final = f"{GROUP}/fence"
"""Written by a new leader of the extender on pods without a node: no bind of an earlier leader can land after it.

A label, because annotations can be full (256 KiB in all): such a pod refuses one more."""
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "hetserve"

RESOURCE_GPU_MEMORY: Final = f"{GROUP}/gpu-memory"
"""Extended resource that a pod requests: MiB on each of its GPUs."""
RESOURCE_GPU: Final = f"{GROUP}/gpu"
"""Extended resource that a pod requests: number of GPUs, all on one node; without GPU memory, whole idle ones."""

ANNOTATION_GPU: Final = f"{GROUP}/gpu"
"""Written by the binding: ids of the GPUs on their node (UUID where known, else the index), joined by ","."""
ANNOTATION_GPU_MEMORY: Final = f"{GROUP}/gpu-memory"
"""Written by the binding: MiB that the pod holds on each of these GPUs, joined by ","."""
ANNOTATION_GPU_PRODUCT: Final = f"{GROUP}/gpu-product"
"""Set on a pod: each GPU must be of one of these products, joined by ","."""
ANNOTATION_GPU_PRODUCT_EXCLUDE: Final = f"{GROUP}/gpu-product-exclude"
"""Set on a pod: no GPU of these products, joined by ","."""
ANNOTATION_GPU_UUID: Final = f"{GROUP}/gpu-uuid"
"""Set on a pod: only GPUs of these ids, joined by ","."""
ANNOTATION_GPU_UUID_EXCLUDE: Final = f"{GROUP}/gpu-uuid-exclude"
"""Set on a pod: no GPU of these ids, joined by ","."""
ANNOTATION_ANTI_AFFINITY: Final = f"{GROUP}/anti-affinity"
"""Set on a pod: Hard (default) or None; two pods of one model share a GPU only if both say None."""
ANNOTATION_RECALLED: Final = f"{GROUP}/recalled"
"""Written by the extender on a pod that it refused and could place by now: the scheduler tries it again."""
ANNOTATION_PLACEMENT_POLICY: Final = f"{GROUP}/placement-policy"
"""Set on a pod: WorstFit, BestFit or Spread, instead of the installation's policy."""
ANNOTATION_NODE_GPUS: Final = f"{GROUP}/gpus"
"""Set on a node: JSON list of {uuid, product, memoryMiB, healthy}; overrides the labels below."""
ANNOTATION_APPLIED: Final = f"{GROUP}/applied"
"""Written by the operator on its Deployments: digest of what it last applied, and the replicas."""

NVIDIA: Final = "nvidia.com/"
RESOURCE_NVIDIA_GPU: Final = f"{NVIDIA}gpu"
"""Extended resource of NVIDIA's device plugin: whole GPUs, or time slices of them, that the plugin chooses."""
RESOURCE_NVIDIA_SHARED: Final = f"{NVIDIA}gpu.shared"
"""The same where the plugin is told to rename what it shares."""
RESOURCE_NVIDIA_MIG: Final = f"{NVIDIA}mig-"
"""What the names of its MIG profiles begin with, such as nvidia.com/mig-1g.5gb."""

GFD_PRODUCT: Final = "nvidia.com/gpu.product"
GFD_COUNT: Final = "nvidia.com/gpu.count"
GFD_MEMORY: Final = "nvidia.com/gpu.memory"

ENV_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
MODEL_CONTAINER: Final = "model"
