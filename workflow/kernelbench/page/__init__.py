"""The page: a recommendation as one HTML file, and in the terminal."""
