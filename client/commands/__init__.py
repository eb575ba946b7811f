"""The commands of `sqlstream`, a file each."""
