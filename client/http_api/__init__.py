"""What the HTTP interfaces of the server share with each other, and the words of them that their clients share."""
