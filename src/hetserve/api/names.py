"""hetserve's names in the Kubernetes API."""

from __future__ import annotations

from typing import Final

GROUP: Final = "hetserve.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "hetserve.io/v1alpha1"
FIELD_MANAGER: Final = "hetserve-operator"
FENCE_MANAGER: Final = "hetserve-fence"
"""Holds the fence label of Deployments, so that no apply of the operator removes it."""
SYSTEM_NAMESPACE: Final = "hetserve-system"
SCHEDULER_NAME: Final = "hetserve-scheduler"
ADMISSION_POLICIES: Final = (
    "hetserve-pods",
    "hetserve-bindings",
    "hetserve-fences",
    "hetserve-services",
    "hetserve-addresses",
)
"""ValidatingAdmissionPolicies of the chart, and their bindings of the same names."""
QUEUE_GATE: Final = f"{GROUP}/queue"

LABEL_SERVICE: Final = f"{GROUP}/service"
LABEL_MODEL: Final = f"{GROUP}/model"
LABEL_INSTANCE_TYPE: Final = f"{GROUP}/instance-type"
LABEL_FENCE: Final = f"{GROUP}/fence"
"""Written by a new leader on unbound pods and on Deployments, so that an earlier leader's writes fail.

A label: a pod's annotations can be full, and a Deployment's are copied to its ReplicaSets."""
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "hetserve"

RESOURCE_GPU_MEMORY: Final = f"{GROUP}/gpu-memory"
"""Requested by a pod: MiB on each of its GPUs."""
RESOURCE_GPU: Final = f"{GROUP}/gpu"
"""Requested by a pod: number of GPUs on one node; without GPU memory, whole idle ones."""

RESOURCE_GPU_COMPUTE: Final = f"{GROUP}/gpu-compute"
"""Requested by a pod beside the memory: percent of the compute of each of its GPUs, whole, 1 to 100."""

ANNOTATION_GPU: Final = f"{GROUP}/gpu"
"""Written by the binding: ids of the GPUs (UUID or index), joined by ","."""
ANNOTATION_GPU_MEMORY: Final = f"{GROUP}/gpu-memory"
"""Written by the binding: MiB on each of these GPUs, joined by ","."""
ANNOTATION_GPU_COMPUTE: Final = f"{GROUP}/gpu-compute"
"""Written by the binding of a pod that requests compute: percent on each of these GPUs, joined by ","."""
ANNOTATION_BOOKS_COMPUTE: Final = f"{GROUP}/books-compute"
"""Written on the extender's Lease by a leader that books compute: its identity, as holderIdentity has it."""
ANNOTATION_GPU_PRODUCT: Final = f"{GROUP}/gpu-product"
"""Set on a pod: products that it accepts, joined by ","."""
ANNOTATION_GPU_PRODUCT_EXCLUDE: Final = f"{GROUP}/gpu-product-exclude"
"""Set on a pod: products that it excludes, joined by ","."""
ANNOTATION_GPU_UUID: Final = f"{GROUP}/gpu-uuid"
"""Set on a pod: ids that it accepts, joined by ","."""
ANNOTATION_GPU_UUID_EXCLUDE: Final = f"{GROUP}/gpu-uuid-exclude"
"""Set on a pod: ids that it excludes, joined by ","."""
ANNOTATION_ANTI_AFFINITY: Final = f"{GROUP}/anti-affinity"
"""Set on a pod: Hard (default) or None; two pods of one model share a GPU only if both say None."""
ANNOTATION_RECALLED: Final = f"{GROUP}/recalled"
"""Written on a refused pod that fits now: the scheduler tries it again."""
ANNOTATION_PLACEMENT_POLICY: Final = f"{GROUP}/placement-policy"
"""Set on a pod: a placement policy."""
ANNOTATION_NODE_GPUS: Final = f"{GROUP}/gpus"
"""Set on a node: JSON list of {uuid, product, memoryMiB, healthy}; overrides the labels below."""
ANNOTATION_SCHEMA: Final = f"{GROUP}/schema"
"""Written on our CRDs: digest of the specification, by which the chart tells those of another version."""
ANNOTATION_APPLIED: Final = f"{GROUP}/applied"
"""Written on our Deployments: digest of what was last applied, and the replicas."""

NVIDIA: Final = "nvidia.com/"
RESOURCE_NVIDIA_GPU: Final = f"{NVIDIA}gpu"
"""NVIDIA's device plugin: whole GPUs or time slices that it chooses."""
RESOURCE_NVIDIA_SHARED: Final = f"{NVIDIA}gpu.shared"
"""The same, renamed for shared GPUs."""
RESOURCE_NVIDIA_MIG: Final = f"{NVIDIA}mig-"
"""Prefix of MIG profiles, such as nvidia.com/mig-1g.5gb."""

GFD_PRODUCT: Final = "nvidia.com/gpu.product"
GFD_COUNT: Final = "nvidia.com/gpu.count"
GFD_MEMORY: Final = "nvidia.com/gpu.memory"
GFD_REPLICAS: Final = "nvidia.com/gpu.replicas"
GFD_SHARING: Final = "nvidia.com/gpu.sharing-strategy"
DRA_DRIVER: Final = "gpu.nvidia.com"
"""NVIDIA's driver of dynamic resource allocation for GPUs; its compute-domain.nvidia.com gives none."""
RESOURCE_SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
"""What drivers of dynamic resource allocation offer, by node."""
OF_DRA_DRIVER: Final = f"spec.driver={DRA_DRIVER}"
"""Field selector of NVIDIA's slices."""

ENV_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
NO_DEVICES: Final = "void"
"""With this value NVIDIA's runtime adds no GPU."""
MODEL_CONTAINER: Final = "model"
