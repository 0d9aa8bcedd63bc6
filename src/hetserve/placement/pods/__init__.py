"""A pod as placement sees it: request, wishes, node, scheduling gate."""
