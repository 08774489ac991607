"""What is loaded when, and where SQL is written: the rules that keep start-up light and statements in their homes."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider_incremental

PACKAGE = Path(airflow_provider_incremental.__file__).parent
HEAVY = ("airflow", "sqlalchemy", "alembic", "boto3", "botocore", "aiobotocore", "asyncpg", "aiosqlite", "fastapi")

HOMES_OF_SQL = ("stores/sql/", "migrations/", "sources/sql")
# What a statement begins with; prose about selecting and updating, and a hostile value in a test, do not.
STATEMENT = re.compile(
    r"\s*(SELECT\s|WITH\s.+\sAS\s|INSERT\s+INTO\s|UPDATE\s.+\sSET\s|DELETE\s+FROM\s|(CREATE|ALTER|DROP)\s+TABLE\s)",
    re.DOTALL,
)


def loaded_by(script: str) -> set[str]:
    """The heavy packages that a fresh process has loaded after a script."""
    env = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    ending = "\nimport sys\nprint(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", script + ending], env=env, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()) & set(HEAVY)


HELP = """
from contextlib import suppress
from airflow_provider_incremental.cli.main import main
with suppress(SystemExit):
    main({arguments!r})
"""


@pytest.mark.parametrize(
    "script",
    [
        "import airflow_provider_incremental",
        "from airflow_provider_incremental.get_provider_info import get_provider_info; get_provider_info()",
        "import airflow_provider_incremental.migrations",
        HELP.format(arguments=["--help"]),
        HELP.format(arguments=["rewind", "--help"]),
        HELP.format(arguments=["db", "upgrade", "--help"]),
        HELP.format(arguments=["set", "wrong", "usage", "altogether"]),
    ],
)
def test_loads_nothing_heavy(script):
    """What every process of Airflow imports, and what answers a user at once, loads no heavy package."""
    assert loaded_by(script) == set()


def test_heavy_packages_would_be_seen():
    """The check above sees a heavy package where there is one."""
    assert loaded_by("import sqlalchemy") == {"sqlalchemy"}


def test_alembic_is_loaded_only_to_migrate():
    """Triggers and consumers open a store that is ready without loading Alembic."""
    assert "alembic" not in loaded_by("import airflow_provider_incremental.migrations.run")


def test_importing_the_plugin_does_nothing(tmp_path):
    """Every Airflow process imports the plugin: no database, no page and no store is loaded or made by it."""
    script = "from airflow_provider_incremental.web.plugin import IncrementalPlugin"
    files = f"import os; os.environ['AIRFLOW_HOME'] = {str(tmp_path)!r}\n{script}"
    assert "asyncpg" not in loaded_by(files)
    assert not list(tmp_path.glob("incremental.db*"))


def texts(path: Path) -> list[str]:
    """The texts of a module that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]


MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith(HOMES_OF_SQL)])
def test_sql_is_written_at_home(name):
    """SQL is written in the SQL store, the migrations and the SQL sources, and nowhere else."""
    assert [text for text in texts(MODULES[name]) if STATEMENT.match(text)] == []


def test_sql_would_be_seen():
    """The check above sees the statements that are at home."""
    assert any(
        STATEMENT.match(text) for name in MODULES if name.startswith(HOMES_OF_SQL) for text in texts(MODULES[name])
    )
