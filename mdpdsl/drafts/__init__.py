"""First drafts of model files: the spaces that a log or an environment suggests."""
