"""Programs that make or check parts of the sources, by hand and in `make lint`."""
