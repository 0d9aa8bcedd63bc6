"""Services as a shell that serves their queries finds, counts and exports them: what router and load twin share."""
