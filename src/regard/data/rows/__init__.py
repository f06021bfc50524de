"""Documents as the rows of pre-training: tokenised once, planned as spans, tokens masked."""
