"""An aggregator with standbys on one database of PostgreSQL behind nginx, for ./tern demo failover."""
