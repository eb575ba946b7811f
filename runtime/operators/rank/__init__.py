"""ROW_NUMBER() without windows: the first rows per key, as a changelog."""
