"""Where the rows of a log come from: one file for each kind of source."""
