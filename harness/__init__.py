"""Real servers and a real Airflow for the demo, the tests and the benchmarks, all from packages, none from images."""
