"""How a DAG processes batches: every one that it has not finished yet, oldest first, each acknowledged when done."""
