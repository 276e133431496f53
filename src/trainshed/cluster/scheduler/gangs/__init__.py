"""Gangs: pods of one PodGroup get their nodes together or not at all.

    group         a PodGroup of either API as a value, and which pods belong to it
    decision      whether a group may start, where its pods go, and why it waits; `fitting` finds the places
    volcano, coscheduling   how each API writes a group, and its status
    definitions   the CustomResourceDefinitions of both

All pure. No group ever holds a part of what it needs, so two that fit one after the other never block each other.
"""
