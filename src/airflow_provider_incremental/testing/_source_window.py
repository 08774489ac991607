"""The source suite's part on late items: a source without a window passes it by having none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_incremental.testing.source_contract import Reader, SourceStage


class WindowTests:
    """What a source promises of items that appear behind the cursor."""

    async def test_a_late_item_inside_the_window_is_found_once(self, stage: SourceStage, reader: Reader) -> None:
        """It is found by the next poll, the cursor does not step back for it, and it does not come again."""
        await stage.add(100, "a")
        await reader.read()
        before = reader.cursor
        await stage.add(95, "late")
        expected = ["late"] if stage.open().lateness else []
        assert await reader.read() == expected
        assert reader.cursor == before
        assert await reader.read() == []

    async def test_a_late_item_outside_the_window_is_not_found(self, stage: SourceStage, reader: Reader) -> None:
        """What lies further back than the window does not come, and holds nothing up."""
        await stage.add(500, "a")
        await reader.read()
        await stage.add(50, "too late")
        assert await reader.read() == []
        await stage.add(600, "b")
        assert await reader.read() == ["b"]

    async def test_late_items_and_a_limit(self, stage: SourceStage, reader: Reader) -> None:
        """More late items than a poll takes, and new ones above them: all come, once."""
        reader.limit = 2
        await stage.add(100, "a")
        await reader.read()
        for at in range(95, 100):
            await stage.add(at, f"late-{at}")
            await stage.add(at + 10, f"new-{at}")
        found = await reader.read()
        late = {f"late-{at}" for at in range(95, 100)} if stage.open().lateness else set()
        assert len(found) == len(set(found))
        assert set(found) == late | {f"new-{at}" for at in range(95, 100)}
        assert await reader.read() == []

    async def test_late_items_do_not_move_the_cursor_back(self, stage: SourceStage, reader: Reader) -> None:
        """Polls that find late items only, cut short by a limit, stay where they are until all have come."""
        await stage.add(100, "a")
        await reader.read()
        before = reader.cursor
        reader.limit = 1
        for at in (95, 96, 97):
            await stage.add(at, f"late-{at}")
        for _ in range(3):
            found = await reader.poll()
            assert found.high == before
        assert len(set(reader.names)) == len(reader.names) == (4 if stage.open().lateness else 1)

    async def test_what_was_there_at_the_latest_is_not_late(self, stage: SourceStage, reader: Reader) -> None:
        """The baseline of a start at the latest knows the items in its window; one that comes there later is late."""
        for at in (95, 98, 100):
            await stage.add(at, f"there-{at}")
        await reader.start()
        assert await reader.read() == []
        await stage.add(97, "late")
        assert await reader.read() == (["late"] if stage.open().lateness else [])

    async def test_the_window_ends(self, stage: SourceStage, reader: Reader) -> None:
        """A batch reaches into the window behind its own end, and not into one that has moved far on."""
        await stage.add(100, "a")
        await reader.read()
        old = reader.cursor
        await stage.add(900, "b")
        await reader.read()
        source = stage.open()
        if source.lateness:
            assert source.in_window(old, old)
            assert source.in_window(reader.cursor, old)
            assert not source.in_window(old, reader.cursor)
