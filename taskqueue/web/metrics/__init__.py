"""The metrics of a daemon, in the form that Prometheus reads, and whether this process and the daemon are well.

Here may live what turns the daemon's figures into time series. What each metric means: ``docs/metrics.md``.
"""
