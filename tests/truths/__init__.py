"""The accuracy of every analysis: real tables, the real protocol, and the same rows together in another library.

Each data set is one consortium in one process: real sessions, machines, masks and as many rounds as its study needs. A
comparison reads the release, or what a site keeps for itself, and returns the largest error over all of its numbers.
"""
