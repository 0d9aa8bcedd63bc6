"""`hetserve simulate` of a model with variants, under a policy that joins queries."""
