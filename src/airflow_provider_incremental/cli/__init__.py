"""The command line ``airflow-incremental``: make the store's tables, look at watermarks, and move them."""
