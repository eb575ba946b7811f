"""What `sqlstream bench nexmark` measures."""
