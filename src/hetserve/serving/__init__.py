"""What happens between queries and instances, decided and simulated in one place."""
