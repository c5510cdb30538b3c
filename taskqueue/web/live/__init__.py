"""What browsers see change while they look.

Here may live the pictures that all browsers at one view share, and the streams that send what changed of them.
"""
