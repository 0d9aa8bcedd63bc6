"""Which plan of a service is in force: what is asked, chosen, recorded and held back."""
