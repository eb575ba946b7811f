"""Several servers of which one leads: who does, and what it alone may write."""
