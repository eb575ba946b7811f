"""Protocol Buffers: descriptors from files and from text, columns of messages and messages of columns."""
