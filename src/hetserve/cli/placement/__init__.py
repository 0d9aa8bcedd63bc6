"""Commands about placement: gpus, placement, queue, why."""
