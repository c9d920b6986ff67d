"""The version of Tern that this package came with."""
__version__ = "0.1.0"
