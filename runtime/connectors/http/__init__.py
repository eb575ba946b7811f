"""Tables of HTTP servers: read by requests, looked up by them, and written by them."""
