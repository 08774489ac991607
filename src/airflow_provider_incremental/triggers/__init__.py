"""The triggers to use in an ``AssetWatcher``, and the one to extend. Their class paths are stored: they stay."""
