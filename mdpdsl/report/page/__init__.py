"""The report as one HTML page: charts and maps as inline SVG, no library, no network."""
