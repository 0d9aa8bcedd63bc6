"""HTTP/1.1 server, client, their limits, and the probe port."""
