"""What compare.py is made of: the plan, the rows of its table, modelled time, text and picture."""
