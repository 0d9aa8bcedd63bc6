"""A day of load played in minutes on the demo's control plane: watched live, drawn and summed up at its end."""
