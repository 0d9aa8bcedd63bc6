"""The API group hetserve.io/v1alpha1 as typed models."""
