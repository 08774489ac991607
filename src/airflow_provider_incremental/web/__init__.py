"""What Airflow's web server shows of watermarks."""
