"""The sources: what lies above a cursor in S3 and in SQL. They know no Airflow, no store, and not each other."""
