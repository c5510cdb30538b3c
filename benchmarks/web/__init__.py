"""What a dashboard costs: the daemon, the web process and the browser."""
