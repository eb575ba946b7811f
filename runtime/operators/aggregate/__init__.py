"""GROUP BY without windows: what each group has come to, as a changelog."""
