"""Where the parts of drawings stand: numbers, of which templates make SVG.

Here may live geometry as pure functions; what is written in a drawing is escaped by the template that draws it.
"""
