"""What `sqlstream bench` measures."""
