"""Slots: parts of a project's ready tasks that have paces of their own.

Here may live what a slot is, and the slots of one project: where each waits, which of them are in memory, and what the
store is asked and told of them. Nothing here knows why a slot has its pace, or which report made it wait.
"""
