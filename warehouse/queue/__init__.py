"""The question queue: jobs, leases, results, on SQLite or PostgreSQL."""
