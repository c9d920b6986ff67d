"""Several aggregators on one database of PostgreSQL behind nginx, for demonstrations and measurements."""
