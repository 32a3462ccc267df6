"""The shipped example models, one `.mdp` file each."""
