"""The placement log: every call of the state machine as a record, and its replay."""
