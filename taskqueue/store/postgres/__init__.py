"""A store in PostgreSQL: for writing by one daemon, for looking by others.

Here may live what connects to a server, reads and writes in its tables, and says what its errors mean.
"""
