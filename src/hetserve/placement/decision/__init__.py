"""Which GPUs a pod gets, and why each other node was refused."""
