"""Where users are known beside the tokens of a server."""
