"""What holds together on shared GPUs, measured: `python -m benchmarks.sharing`."""
