"""The scaling policy in virtual time: a load trace in; decisions, dollars and late queries out."""
