"""Geometry of drawings: numbers from which templates make SVG.

Here may live geometry as pure functions; the template that draws a text escapes it.
"""
