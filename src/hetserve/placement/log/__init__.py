"""The placement log and its replay."""
