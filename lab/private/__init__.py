"""A federation in secure rounds on one machine, for ./tern demo private."""
