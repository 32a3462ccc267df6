"""A log in the place of a system: queues of successors that answer an explorer."""
