"""What components of any kind share: API server, leader election, HTTP, tasks, settings, process."""
