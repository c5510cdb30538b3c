"""Live views: what browsers see change.

Here may live the pictures that all browsers at a view share, and the streams that send their changes.
"""
