"""Where the parts meet Airflow: versions, settings, connections, and which store and clients they lead to."""
