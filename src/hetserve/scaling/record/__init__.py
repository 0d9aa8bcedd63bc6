"""Records of decisions: exact values, documents, a ring of them in a ConfigMap, and replay."""
