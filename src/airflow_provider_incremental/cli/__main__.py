"""``python -m airflow_provider_incremental.cli``: the same as ``airflow-incremental``."""

from __future__ import annotations

import sys

from airflow_provider_incremental.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
