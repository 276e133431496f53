"""The command line: `trainshed`, also installed as `kubectl trainshed`.

Adds to kubectl, never gates it: everything it shows is an object that plain kubectl shows too.
"""
