"""What Airflow learns of this provider: strings only, loaded by every process. The truth is ``provider.yaml``."""

from __future__ import annotations

from typing import Any

__all__ = ["get_provider_info"]

_STORE = """\
The database that holds the watermarks: ``conn:`` and the id of an Airflow connection (of type Postgres,
MySQL or SQLite), or a URL such as ``postgresql://user:password@host:5432/database``. Triggerers, workers
and everybody who runs ``airflow-incremental`` need the same one. Its tables are made and upgraded by
``airflow-incremental db upgrade``, or by ``airflow db migrate`` where it is Airflow's own database.

``api+https://:TOKEN@host/path``, or a connection of type HTTP, reaches the store through its API instead, so
that no credentials of a database are needed: ``api+https://user:password@airflow.example/incremental/api``
is that of an Airflow.

``s3://bucket/prefix?aws_conn_id=aws_default`` keeps it in object storage that has conditional writes, by an
Airflow connection of type Amazon Web Services. There are no tables to make.

Empty, the default, means a SQLite file, ``incremental.db`` under ``AIRFLOW_HOME``, which upgrades itself
and serves one machine only.
"""

_API_STORE = """\
The database that the API in Airflow's api-server serves, as for ``store``. Empty, the default, means that of
``store``, or Airflow's own database where ``store`` is empty or an API.
"""

_API = """\
Whether Airflow's api-server serves the store under ``/incremental/api``. Turn it off where nobody may reach the
store that way, or where a server of its own does it.
"""


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, for the entry point ``apache_airflow_provider``."""
    return {
        "package-name": "airflow-provider-incremental",
        "name": "Incremental",
        "description": (
            "Incremental triggers for event-driven scheduling: every new S3 object and SQL row reaches every "
            "consuming DAG, once.\n"
        ),
        "integrations": [{"integration-name": "Incremental", "tags": ["software"]}],
        "triggers": [
            {"integration-name": "Incremental", "python-modules": ["airflow_provider_incremental.triggers"]},
        ],
        "sensors": [
            {
                "integration-name": "Incremental",
                "python-modules": ["airflow_provider_incremental.sensors.batches"],
            },
        ],
        "db-managers": ["airflow_provider_incremental.migrations.manager.IncrementalDBManager"],
        "config": {
            "incremental": {
                "description": "Where the watermarks, the batch log and the progress of consumers are kept.\n",
                "options": {
                    "store": {
                        "description": _STORE,
                        "version_added": "0.1.0",
                        "type": "string",
                        "sensitive": True,
                        "example": "conn:incremental_store",
                        "default": "",
                    },
                    "api": {
                        "description": _API,
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": "False",
                        "default": "True",
                    },
                    "api_store": {
                        "description": _API_STORE,
                        "version_added": "0.1.0",
                        "type": "string",
                        "sensitive": True,
                        "example": "conn:incremental_store",
                        "default": "",
                    },
                },
            },
        },
    }
