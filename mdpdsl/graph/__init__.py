"""The intermediate representation: a finite MDP as arrays, independent of any syntax."""
