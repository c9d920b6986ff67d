"""Strongly convex tasks whose optimum is known: tables, objectives, and what a theorem says of a run on them."""
