"""Documents: the article, its supplement and a machine's report, from the summary.json of each study."""
