"""Cost of the dashboard: the daemon, the web process and the browser."""
