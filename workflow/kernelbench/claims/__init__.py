"""What the article and earlier work claim, as rules on the tables; and measuring what a claim is about again."""
