"""The zoo's networks in other libraries: their names of layers, their layouts of weights."""

LIBRARIES = ("torchvision", "timm", "keras")
"""Whose weights can be read and written."""
