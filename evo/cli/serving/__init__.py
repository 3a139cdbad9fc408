"""The page that follows: what it shows, when it changes, and the server that gives it to a browser."""
