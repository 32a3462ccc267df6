"""The intermediate representation: a finite MDP as arrays, knowing no syntax."""
