"""Pictures of transition graphs."""
