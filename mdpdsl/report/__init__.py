"""Results for people: tables, figures, pictures of graphs, and pages."""
