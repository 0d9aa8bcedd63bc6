"""Which GPUs a pod gets: `Ledger` holds bookings, `decide` picks GPUs, `next_round` picks waiting pods."""
