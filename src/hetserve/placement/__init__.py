"""Which GPUs a pod gets: `Ledger` holds bookings, `decide` picks GPUs, `WaitingLine` picks waiting pods."""
