"""Where watermarks live: one SQL store for PostgreSQL, MySQL/MariaDB and SQLite, and a store in memory for tests."""
