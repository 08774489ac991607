"""Whether the triggerer can import a class that a DAG file defines: Airflow loads DAG files by path, not by name."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.wiring.airflow import declared_paths, importable_module, parsing_for_task

__all__ = ["require_importable"]


def require_importable(cls: type) -> None:
    """Refuse a class of a DAG file that lies where no other process looks.

    A DAG processor puts a bundle's folder on its own path, a triggerer does not. Where a task is run nothing is
    refused: it needs no trigger, and its machine may have another path.

    :raises ConfigurationError: naming the file, and where to put the class.
    """
    module = importable_module(cls.__module__)
    if module == cls.__module__ or parsing_for_task():
        return
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if file is None:
        return
    if "<locals>" in cls.__qualname__:
        msg = f"{cls.__qualname__} is made inside a function of {file}, and the triggerer cannot import it from there; "
        raise ConfigurationError(f"{msg}define it at the top of a module")
    if not _is_found(module, Path(file)):
        msg = (
            f"{cls.__name__} is defined in the DAG file {file}, and the triggerer, which looks for {module}."
            f"{cls.__qualname__}, cannot import it: folders of DAGs are not on its path. Move the class into a module "
            f"of Airflow's plugins folder or of an installed package, or set PYTHONPATH={Path(file).parent} for all "
            "of Airflow's processes"
        )
        raise ConfigurationError(msg)


def _is_found(module: str, file: Path) -> bool:
    """Whether a module is found without the folders that only this process looks into."""
    declared = {Path(folder).resolve() for folder in declared_paths() if folder}
    entries = [Path(entry).resolve() for entry in sys.path]
    shared = [str(entry) for entry in entries if entry in declared or not file.resolve().is_relative_to(entry)]
    spec = PathFinder.find_spec(module, shared)
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file.resolve()
