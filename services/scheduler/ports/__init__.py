"""Ports of the scheduler: protocols of what is outside of it, and the records that cross them."""
