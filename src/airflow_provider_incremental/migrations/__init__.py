"""Changes of the store's schema: Alembic revisions with a version table of their own, and what runs them."""

from __future__ import annotations

__all__ = ["HEAD", "RELEASES", "REVISIONS"]

REVISIONS = ("0001", "0002", "0003", "0004")
"""Every revision, oldest first, so that the present one is told from a newer one without loading Alembic."""

HEAD = REVISIONS[-1]
"""The revision that this release works with."""

RELEASES = {"0.1.0": "0004"}
"""The revision that each release works with, where a release brought one."""
