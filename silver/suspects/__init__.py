"""Records at or below the watermark, told apart by content: duplicate, late or collision. The entry is `resolve.resolve`."""
