"""Build script: everything it could say is in setup.cfg."""

from setuptools import setup

setup()
