"""What is run by hand on the sources, and by `make lint` to see that it was."""
