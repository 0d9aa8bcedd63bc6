"""Parts of an InferenceService: its load, where demand comes from, how it scales."""
