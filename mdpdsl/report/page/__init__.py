"""The report as one HTML page, which needs no library and no network."""
