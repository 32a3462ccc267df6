"""A log in place of a system: queues of logged successors answer an explorer."""
