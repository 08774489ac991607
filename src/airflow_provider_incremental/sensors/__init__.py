"""Sensors: waiting, in a DAG that runs by time, for batches that a consumer has not finished."""
