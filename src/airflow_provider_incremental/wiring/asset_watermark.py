"""``AssetWatermark``: the position of a source as a task reads and writes it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.watermark import Cursor, WatermarkKey
from airflow_provider_incremental.wiring.actor import present_actor
from airflow_provider_incremental.wiring.sync import store_session

__all__ = ["AssetWatermark"]


@dataclass(frozen=True)
class AssetWatermark:
    """The watermark of an asset's source.

    :param asset_name: the asset's name.
    :param namespace: and :param key: set several watermarks of one asset apart; leave them where there is one.

    >>> AssetWatermark("orders").get_value()  # doctest: +SKIP
    (datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc), 4711)
    """

    asset_name: str
    namespace: str = "default"
    key: str = "default"

    def __post_init__(self) -> None:
        """Refuse names that no watermark can have.

        :raises ConfigurationError: when a name is empty or too long.
        """
        WatermarkKey(self.asset_name, self.namespace, self.key)

    @property
    def record_key(self) -> WatermarkKey:
        """The key of the record in the store."""
        return WatermarkKey(self.asset_name, self.namespace, self.key)

    def get_value(self) -> Cursor:
        """Return how far the source has been read; None while nothing was.

        :raises StoreError: when the store cannot be reached or is not migrated.
        """
        with store_session() as session:
            watermark = session.run(session.store.load(self.record_key))
        return None if watermark is None else watermark.cursor

    def set_value(self, value: Cursor, *, reread: bool = False, reason: str | None = None) -> None:
        """Move the watermark to a position, forward or back, whatever the trigger does meanwhile.

        The next poll reads above it: going forward skips what lies between, going back reads it again. The journal
        records it, with the running task (or outside of one, the user of the operating system) as who did it.

        :param value: a cursor of the source's shape: for S3 ``(last_modified, key)``, for SQL a tuple with one value
            for each cursor column; None for the very start.
        :param reread: deliver again what was delivered before, also from a source with a lateness window (S3), which
            leaves it out otherwise.
        :param reason: why, for the journal.
        :raises UnsupportedValueError: when the value is of a type that no cursor can have.
        """
        act = Act(who=present_actor(), why=reason)
        with store_session() as session:
            session.run(session.store.rewind(self.record_key, value, reread=reread, act=act))
