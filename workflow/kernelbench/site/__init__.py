"""The site: the results of the recorded studies on one page, on which a reader chooses what they want to know."""
