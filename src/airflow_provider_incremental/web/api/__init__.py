"""The API: the store's operations over HTTP, inside Airflow's api-server or alone."""
