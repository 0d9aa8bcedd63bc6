"""What the operator watches and reads, and which services a change concerns."""
