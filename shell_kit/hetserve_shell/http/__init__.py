"""HTTP/1.1: the server and client that a component answers and asks with, and their limits."""
