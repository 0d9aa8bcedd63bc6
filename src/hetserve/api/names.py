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
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "hetserve"

RESOURCE_GPU_MEMORY: Final = f"{GROUP}/gpu-memory"
"""Extended resource that a pod requests, in MiB of one GPU."""

ANNOTATION_GPU: Final = f"{GROUP}/gpu"
"""Written by the binding: id of the GPU on its node (UUID where known, else the index)."""
ANNOTATION_GPU_MEMORY: Final = f"{GROUP}/gpu-memory"
"""Written by the binding: MiB that the pod holds on that GPU."""
ANNOTATION_GPU_PRODUCT: Final = f"{GROUP}/gpu-product"
"""Set on a pod: the GPU must be of this product."""
ANNOTATION_NODE_GPUS: Final = f"{GROUP}/gpus"
"""Set on a node: JSON list of {uuid, product, memoryMiB, healthy}; overrides the labels below."""
ANNOTATION_APPLIED: Final = f"{GROUP}/applied"
"""Written by the operator on its Deployments: digest of what it last applied, and the replicas."""

GFD_PRODUCT: Final = "nvidia.com/gpu.product"
GFD_COUNT: Final = "nvidia.com/gpu.count"
GFD_MEMORY: Final = "nvidia.com/gpu.memory"

ENV_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
MODEL_CONTAINER: Final = "model"
