# In rules.mk of this stand-in.
