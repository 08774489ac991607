"""The SQL store: tables, statements, the differences between databases, and the store itself."""
