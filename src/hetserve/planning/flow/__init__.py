"""Flow: the mix of types that holds most for a budget, or a load for least, by a flow program and by trials."""
